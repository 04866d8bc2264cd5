// The simplest thing that is a transport, between threads: one lock, and the receiver copies from the sender's memory.
// It shows that the contract can be met, and serves tests of what lies above transports.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <tuple>

#include "coll/transport/transport.h"

namespace softib::coll::test {

// What the ranks of a test share.
class PlainHub {
 public:
  struct Shared {
    std::mutex lock;
    struct Offer {
      Send* send = nullptr;
      const void* memory = nullptr;
    };
    std::map<std::tuple<u32, u32, Stream>, std::deque<Offer>> offers;  // by sender, receiver and stream
    std::map<u32, std::deque<Send*>> taken;                            // by sender: done, but it doesn't know yet
  };

  [[nodiscard]] std::unique_ptr<Transport> join(u32 rank);

 private:
  std::shared_ptr<Shared> shared_ = std::make_shared<Shared>();
};

}  // namespace softib::coll::test
