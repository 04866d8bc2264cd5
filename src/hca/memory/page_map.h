// Which pages of a range have ever been touched (/proc/self/pagemap).
#pragma once

#include <array>

#include "hca/memory.h"
#include "hca/memory/pages.h"

namespace softib::hca {

// The most that is looked at, and moved, in one step.
inline constexpr u64 step_size = u64{32} << 20;

class PageMap {
 public:
  // Looks at a range of at most step_size. Where the kernel tells nothing, all pages count as touched.
  void look(AddressRange range);

  // The first run of touched pages in `range`, empty when there is none. `range` lies in what was looked at.
  [[nodiscard]] AddressRange next_touched(AddressRange range) const;

  [[nodiscard]] bool all_touched(AddressRange range) const { return next_touched(range).size() == range.size(); }

 private:
  [[nodiscard]] bool touched(u64 address) const { return touched_[(address - begin_) / page_size]; }

  u64 begin_ = 0;
  std::array<bool, step_size / page_size> touched_;
};

}  // namespace softib::hca
