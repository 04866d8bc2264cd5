#include "net/post.h"

#include "net/transit.h"

namespace softib::net {

void Post::send(PortRef from, const Packet& packet) {
  letters_.push_back({from, packet});
  if (held_ == 0) drain();
}

void Post::drain() {
  if (draining_) return;
  draining_ = true;
  while (next_ < letters_.size()) {
    Letter letter = letters_[next_++];  // a copy: the vector may grow meanwhile
    carry(world_, letter.from, letter.packet);
    if (next_ == letters_.size()) {
      letters_.clear();
      next_ = 0;
    }
  }
  draining_ = false;
}

}  // namespace softib::net
