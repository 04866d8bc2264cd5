// Faults on demand (`softib link`, `switch`, `host`, `counters`, `sm`): checks what is asked for and does it to the
// network; sees to what takes its time, flapping links and hosts that boot.
#pragma once

#include <optional>
#include <set>
#include <vector>

#include "daemon/fault_report.h"
#include "daemon/plane/plane.h"
#include "fabric/fabric.h"
#include "ipc/protocol.h"

namespace softib::daemon {

class Faults {
 public:
  Faults(const fabric::Fabric& fabric, Plane& plane);

  // As ipc::Fault has the errors. Any bytes are safe.
  [[nodiscard]] Result<void> check(const ipc::Fault::Request& request) const;
  // False: it was so already. Only after check().
  bool apply(const ipc::Fault::Request& request);
  // Of the cable that is plugged in by it.
  [[nodiscard]] u32 disabled_ports(const ipc::Fault::Request& request) const;
  // The host whose programs die of it.
  [[nodiscard]] std::optional<u32> dying_host(const ipc::Fault::Request& request) const;

  [[nodiscard]] bool is_off(u32 host) const { return off_.contains(host); }
  [[nodiscard]] const std::set<HcaPlace>& removed() const { return removed_; }

  // Gives when to call again (CLOCK_MONOTONIC ns), ~0: not before something happens.
  u64 on_time(u64 now);

  [[nodiscard]] FaultReport report() const;

 private:
  struct Flap {
    net::PortRef port;
    u32 changes_left;  // down and up again are two
    u64 half;          // ns
    u64 due;           // 0: by the next on_time()
  };
  struct Boot {
    u32 host;
    u64 after;
    u64 due;
  };

  [[nodiscard]] bool is_place(const ipc::FaultPlace& place) const;
  [[nodiscard]] Result<void> check_place(const ipc::Fault::Request& request) const;
  [[nodiscard]] net::PortRef port_at(const ipc::FaultPlace& place) const;
  bool apply_to_link(const ipc::Fault::Request& request, net::PortRef port);
  bool set_cut(net::PortRef port, bool cut);
  bool limit(net::PortRef port, std::optional<fabric::Speed> speed, std::optional<fabric::Width> width);
  bool set_quality(net::PortRef port, const net::LinkQuality& quality);
  bool reset(net::PortRef port);
  bool stop_flapping(net::PortRef port);
  bool set_managers(bool run);
  bool power(const ipc::FaultPlace& place, bool on);
  bool set_present(HcaPlace hca, bool present);
  [[nodiscard]] std::vector<u32> nodes_of(const ipc::FaultPlace& place) const;
  u64 advance_flaps(u64 now);
  u64 advance_boots(u64 now);

  const fabric::Fabric& fabric_;
  Plane& plane_;
  net::Network& network_;
  std::vector<Flap> flaps_;
  std::vector<Boot> boots_;
  std::set<u32> off_;           // hosts
  std::set<HcaPlace> removed_;  // of hosts that are on
};

}  // namespace softib::daemon
