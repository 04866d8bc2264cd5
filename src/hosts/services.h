// Programs that run on every host as long as it is there.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <map>
#include <optional>
#include <string>

#include "hosts/place.h"

namespace softib::hosts {

class Services {
 public:
  Services(const Surroundings& around, const PlaceSpec& spec) : around_(around), spec_(spec) {}

  // Those that are installed and have something to do.
  void start();
  // Until they are ready, but not for ever.
  void wait();
  // A child of this process has ended. If it was one of them it is told, and started again a while later: a host that
  // was killed by a fault comes back with its interfaces.
  void ended(pid_t pid, int status);
  // Starts what is due; how long to sleep until something is, as poll() wants it.
  [[nodiscard]] int restart();

 private:
  const Surroundings& around_;
  PlaceSpec spec_;
  std::map<pid_t, std::string> running_;
  Fd ready_;
  std::optional<std::chrono::steady_clock::time_point> due_;
};

}  // namespace softib::hosts
