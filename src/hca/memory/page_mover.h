// Moving pages of this process onto its memory file, in place, with their contents, while it runs.
#pragma once

#include "hca/memory/huge_pages.h"
#include "hca/memory/memory_file.h"
#include "hca/memory/page_map.h"
#include "hca/memory/write_hold.h"

namespace softib::hca {

class PageMover {
 public:
  explicit PageMover(const MemoryFile& file) : file_(file) {}

  // Moves a range of one plain private mapping; its offsets in the file are empty. Gives the end of what was moved,
  // range.begin if nothing could be. `hold`, if there is one, keeps others from it: writers, and a userfaultfd of the
  // program's own; `alone` says that there are no writers.
  //
  // It goes step by step, so that a writer waits for milliseconds at most and the old pages are free before the next
  // new ones are needed. Nothing here may touch the program's heap or wait for a lock: whoever holds one may be held.
  u64 move(AddressRange range, int protection, WriteHold* hold, bool alone);

 private:
  bool step(AddressRange range, int protection, WriteHold* hold, bool alone);
  bool copy_and_replace(AddressRange range, int protection);
  bool copy(AddressRange range);

  const MemoryFile& file_;
  PageMap touched_;
  HugePages huge_pages_;
};

}  // namespace softib::hca
