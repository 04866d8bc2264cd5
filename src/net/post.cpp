#include "net/post.h"

#include "net/transit.h"

namespace softib::net {

void Post::send(PortRef from, const Packet& packet) {
  letters_.push_back({from, packet});
  if (held_ == 0) drain();
}

// Not each time: moving the rest up costs.
void Post::forget_sent() {
  constexpr size_t many = 256;
  if (next_ != letters_.size() && (next_ < many || next_ * 2 < letters_.size())) return;
  letters_.erase(letters_.begin(), letters_.begin() + static_cast<std::ptrdiff_t>(next_));
  next_ = 0;
}

void Post::drain() {
  if (draining_) return;
  draining_ = true;
  while (next_ < letters_.size()) {
    Letter letter = letters_[next_++];  // a copy: the vector may grow meanwhile
    carry(world_, letter.from, letter.packet);
    forget_sent();
  }
  draining_ = false;
}

}  // namespace softib::net
