// Pages of the segment's arena: what lies there is rings, bounce buffers and member lists.
#pragma once

#include <array>
#include <functional>
#include <map>

#include "base/types.h"

namespace softib::daemon {

// Hands out runs of whole pages, the lowest that fit first, and joins neighbours when they come back. Knows offsets
// only: `give_back` is told which bytes are free again, so that their memory can be returned to the system; a run is
// therefore all zeroes when it is handed out.
class Arena {
 public:
  using GiveBack = std::function<void(u64 offset, u64 bytes)>;

  // Page 0 is never handed out: offset 0 means "none" everywhere.
  Arena(u64 bytes, GiveBack give_back);

  // `bytes` is rounded up to pages. ENOMEM; EINVAL for 0.
  [[nodiscard]] Result<u64> allocate(u64 bytes);

  // Frees a run by the offset that allocate() gave. EINVAL: there is none.
  Result<void> free(u64 offset);

  [[nodiscard]] u64 used_bytes() const { return used_pages_ * page; }
  [[nodiscard]] u64 bytes_at(u64 offset) const;  // size of the run there, 0 = none

  static constexpr u64 page = 4096;

 private:
  using Runs = std::map<u64, u64>;  // first page -> pages

  Runs::iterator find_fit(u64 pages);
  void remember_gap(u64 first, u64 pages);
  void forget_below(u64 pages, u64 first);

  // No gap of n pages starts below lowest_[n]: keeps the search from walking over holes that are too small.
  static constexpr u64 tracked = 64;
  std::array<u64, tracked + 1> lowest_{};

  GiveBack give_back_;
  Runs gaps_;
  Runs runs_;
  u64 used_pages_ = 0;
};

}  // namespace softib::daemon
