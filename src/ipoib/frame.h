// A packet with its type that waits for a way: a path, or a group to be joined.
#pragma once

#include "ipoib/datagrams.h"
#include "ipoib/neighbours.h"

namespace softib::ipoib {

struct Frame {
  EtherType type = EtherType::ipv4;
  Held held;
  HardwareAddress to{};  // unless it goes to a group
};
using Deliver = std::function<void(const Target&, const Frame&)>;

inline void hold(std::deque<Frame>& waiting, Frame frame, std::size_t most = most_waiting) {
  waiting.push_back(std::move(frame));
  if (waiting.size() > most) waiting.pop_front();
}

// Handles may go when the sends that use them are done: a while after they were given up.
class Graveyard {
 public:
  explicit Graveyard(Loop& loop) : loop_(loop) {}
  void bury(AddressHandle handle) {
    if (!handle) return;
    constexpr milliseconds long_enough{1000};
    loop_.after(long_enough, [kept = std::make_shared<AddressHandle>(std::move(handle))] { kept->reset(); });
  }

 private:
  Loop& loop_;
};

}  // namespace softib::ipoib
