// Free indices of a segment table.
#pragma once

#include <deque>

#include "base/types.h"

namespace softib::daemon {

// Gives indices in [first, end). A returned one rests until `rest` others have been returned after it, so that somebody
// who still names it gets an error instead of a stranger; the rest is cut short only when the table is full.
class IndexPool {
 public:
  IndexPool(u32 first, u32 end, u32 rest) : next_(first), end_(end), rest_(rest) {}

  // 0: none left.
  [[nodiscard]] u32 take() {
    if (free_.size() > rest_ || (next_ == end_ && !free_.empty())) {
      u32 index = free_.front();
      free_.pop_front();
      return index;
    }
    return next_ == end_ ? 0 : next_++;
  }

  void give_back(u32 index) { free_.push_back(index); }

  [[nodiscard]] u32 limit() const { return next_; }  // one past the highest index ever given

 private:
  u32 next_;
  u32 end_;
  u32 rest_;
  std::deque<u32> free_;
};

}  // namespace softib::daemon
