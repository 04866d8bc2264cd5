// Programs that run on every host as long as it is there.
#pragma once

#include <sys/types.h>

#include <map>
#include <string>

#include "hosts/place.h"

namespace softib::hosts {

class Services {
 public:
  Services(const Surroundings& around, std::string host) : around_(around), host_(std::move(host)) {}

  // Those that are installed.
  void start();
  // A child of this process has ended; it is told if it was one of them.
  void ended(pid_t pid, int status);

 private:
  const Surroundings& around_;
  std::string host_;
  std::map<pid_t, std::string> running_;
};

}  // namespace softib::hosts
