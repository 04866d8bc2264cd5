// The manager's settings in ports: LIDs, MTU, virtual lanes, timers, P_Keys, and the way from INIT to ACTIVE. Only what
// differs is sent.
#pragma once

#include "fabric/partitions.h"
#include "sm/requests.h"
#include "sm/subnet.h"

namespace softib::sm {

class PortSetup {
 public:
  PortSetup(Requests& requests, const Options& options) : requests_(requests), options_(options) {}

  // Everything but ACTIVE. `greet`: all clients shall register again, the manager is new.
  void arm(Subnet& subnet, const fabric::Partitions& partitions, bool greet);
  void activate(Subnet& subnet);
  [[nodiscard]] u32 failures() const { return failures_; }  // since arm()

 private:
  using Info = std::array<u8, port_info_size>;
  [[nodiscard]] Info wanted(const Subnet& subnet, End end, bool greet) const;
  void set(Subnet& subnet, End end, const Info& info);
  void set_pkeys(Subnet& subnet, End end, const std::vector<u16>& keys);

  Requests& requests_;
  const Options& options_;
  u32 failures_ = 0;
};

// Ports with a link that are not ACTIVE.
[[nodiscard]] u32 count_inactive(const Subnet& subnet);

}  // namespace softib::sm
