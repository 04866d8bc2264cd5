// What the service waits for: descriptors and times. One thread does all the work (docs/ipoib.md says why).
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <unordered_map>
#include <vector>

#include "base/fd.h"
#include "base/types.h"

namespace softib::ipoib {

using Clock = std::chrono::steady_clock;
using Time = Clock::time_point;
using std::chrono::milliseconds;

class Loop {
 public:
  Loop();
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  using Handler = std::function<void()>;
  // Calls `handler` whenever there is something to read.
  void watch(int fd, Handler handler);
  void unwatch(int fd);
  // Takes back, or gives again, interest in a descriptor that is watched.
  void pause(int fd, bool paused);
  void after(milliseconds delay, Handler handler);
  // Whoever moves packets. `move` takes a batch of each direction; `arm`, which comes when nothing moves, sees to it
  // that a watched descriptor tells of what comes next, and takes what has come in between. False: there was nothing.
  struct Worker {
    std::function<bool()> move;
    std::function<bool()> arm;
  };
  void add_worker(Worker worker) { workers_.push_back(std::move(worker)); }

  // Until stop(), which it takes back.
  void run();
  void stop() { stopped_ = true; }
  // Lets go of all that was to be done later.
  void forget_timers() { timers_.clear(); }

 private:
  // False: there is more to move, but others have their turn.
  [[nodiscard]] bool move_until_quiet();
  void wait(int patience_ms);
  void fire();
  [[nodiscard]] int time_left() const;

  Fd epoll_;
  std::unordered_map<int, Handler> handlers_;
  std::multimap<Time, Handler> timers_;
  std::vector<Worker> workers_;
  bool stopped_ = false;
};

}  // namespace softib::ipoib
