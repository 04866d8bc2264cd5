// The packets that are to travel, one after the other: what an agent sends while one is under way waits its turn, so
// that no chain of answers grows the stack.
#pragma once

#include <vector>

#include "net/network.h"

namespace softib::net {

struct World;

class Post {
 public:
  explicit Post(World& world) : world_(world) {}
  void send(PortRef from, const Packet& packet);

  // While one lives, packets are only put down. The last one's end sends them: a change is told of when it is complete.
  class Hold {
   public:
    explicit Hold(Post& post) : post_(post) { ++post_.held_; }
    ~Hold() {
      if (--post_.held_ == 0) post_.drain();
    }
    Hold(const Hold&) = delete;
    Hold& operator=(const Hold&) = delete;

   private:
    Post& post_;
  };

 private:
  struct Letter {
    PortRef from;
    Packet packet;
  };
  void drain();
  void forget_sent();

  World& world_;
  std::vector<Letter> letters_;
  size_t next_ = 0;
  u32 held_ = 0;
  bool draining_ = false;
};

}  // namespace softib::net
