// Huge pages for the memory file, whatever the system's setting for shared memory is (as a rule: never).
//
// MADV_COLLAPSE makes them on demand. It waits for a kernel worker to run on every CPU, though: microseconds on a quiet
// machine, seconds on an overloaded one. So it is tried for large ranges only, not while anybody is held off, and not
// where more wants to run than there are CPUs.
#pragma once

#include "hca/memory/memory_file.h"
#include "hca/memory/page_map.h"

namespace softib::hca {

class HugePages {
 public:
  // Puts empty huge pages on the file where `range` has large stretches of touched pages, to be filled afterwards.
  // Does what it can; at most `most` bytes at a time keep the memory in bounds that is needed twice.
  void prepare(const MemoryFile& file, AddressRange range, PageMap& touched);

  static constexpr u64 most = u64{256} << 20;

 private:
  [[nodiscard]] bool worthwhile(AddressRange range) const;
  void collapse(class FileWindow& window, AddressRange run);

  bool supported_ = true;
  u64 not_before_ = 0;  // milliseconds, monotonic: after a slow call it is left alone for a while
};

}  // namespace softib::hca
