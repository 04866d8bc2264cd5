// What softib-aggregation waits for. Who has something to do is polled again and again; who is still for a while is
// armed and sleeps, and costs nothing until its descriptor is readable. So the price of a message doesn't depend on the
// number of jobs, and a node without work uses no processor.
#pragma once

#include <sys/epoll.h>

#include <chrono>
#include <map>
#include <vector>

#include "base/fd.h"
#include "base/types.h"

namespace softib::aggregation {

class Watched {
 public:
  using Time = std::chrono::steady_clock::time_point;

  Watched() = default;
  Watched(const Watched&) = delete;
  Watched& operator=(const Watched&) = delete;
  virtual ~Watched() = default;

  // True if anything moved.
  virtual bool turn(Time now) = 0;
  // From now on the descriptor tells. False: something has come meanwhile.
  [[nodiscard]] virtual bool arm() = 0;
  [[nodiscard]] virtual int descriptor() const = 0;
};

class Watch {
 public:
  using Time = Watched::Time;

  Watch() : epoll_(::epoll_create1(EPOLL_CLOEXEC)) {}
  [[nodiscard]] explicit operator bool() const { return static_cast<bool>(epoll_); }

  // Awake at first. It stays awake for `linger` after anything moved.
  void add(Watched& one, std::chrono::nanoseconds linger);
  // From within its own turn(), too.
  void remove(Watched& one);
  void wake(const Watched& one);
  // wait() returns for it.
  void add_descriptor(int descriptor) { listen(descriptor, nullptr); }

  // False: who polls would be in the way of those it waits for, so nobody lingers.
  void set_lingers(bool lingers) { lingers_ = lingers; }
  // A turn of all that are awake; true if anything moved.
  bool turn(Time now);
  [[nodiscard]] bool is_asleep() const { return awake_.empty(); }
  // Wakes those that have something to read; until somebody has, or patience ends.
  void wait(std::chrono::milliseconds patience);

 private:
  struct Entry {
    Watched* one = nullptr;
    std::chrono::nanoseconds linger{};
    Time moved{};
    bool awake = false;
  };

  void listen(int descriptor, Watched* one);
  void wake(Entry& entry);
  [[nodiscard]] bool turn_of(std::size_t index, Time now);

  Fd epoll_;
  std::map<const Watched*, Entry> entries_;
  bool lingers_ = true;
  std::vector<Entry*> awake_;  // nullptr: one that has been removed meanwhile
};

}  // namespace softib::aggregation
