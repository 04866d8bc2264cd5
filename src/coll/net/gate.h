// Listeners, and those who came to them but haven't said yet who they are.
#pragma once

#include <poll.h>

#include <functional>

#include "coll/net/frames.h"
#include "coll/net/sockets.h"

namespace softib::coll {

class Gate {
 public:
  Gate() = default;
  // Each has a while for its first frame, whose body has at most `limit` bytes. When more than `most` have come, the
  // one that had the most time goes.
  Gate(std::vector<Fd> listeners, u64 limit, std::size_t most)
      : listeners_(std::move(listeners)), limit_(limit), most_(most) {}
  Gate(Fd listener, u64 limit, std::size_t most) : limit_(limit), most_(most) {
    listeners_.push_back(std::move(listener));
  }

  // Adds what poll() has to look at; until deadline() at the latest.
  void add_to(std::vector<pollfd>& polled) const;
  [[nodiscard]] Clock::time_point deadline() const;

  // Who has said its first frame: takes the socket if that was right, else leaves it to be closed.
  using Admit = std::function<void(FrameSocket& socket, const Frame& first)>;
  // `polled`: what add_to() added, and nothing else.
  void serve(std::span<const pollfd> polled, const Admit& admit);

 private:
  struct Stranger {
    FrameSocket socket;
    Clock::time_point deadline;
    bool gone = false;
  };
  static void look_at(Stranger& stranger, bool readable, const Admit& admit);
  void accept_all(const Fd& listener);
  void make_room();

  std::vector<Fd> listeners_;
  u64 limit_ = 0;
  std::size_t most_ = 0;
  std::vector<Stranger> strangers_;
};

}  // namespace softib::coll
