// A built-in subnet manager at its place in the network.
#pragma once

#include "daemon/plane/plane.h"

namespace softib::daemon {

// One port for each subnet: port 0 of its first switch, or, where there is none, its first port. Uncabled ports need
// none.
[[nodiscard]] std::vector<net::PortRef> places_for_managers(const net::Network& network);

// Whether every link that is up, of those that can be reached from this port, is ACTIVE; there is one.
[[nodiscard]] bool subnet_is_active(const net::Network& network, net::PortRef from);

// The P_Keys of a fabric file as a partitions.conf, or the one in it: empty when every port is in the default partition
// and no other.
[[nodiscard]] std::string partitions_of(const fabric::Fabric& fabric);

// What the fabric file says of it.
[[nodiscard]] sm::Options manager_options(const fabric::Fabric& fabric);

class Plane::Manager final : private sm::Mouth {
 public:
  Manager(net::Network& network, net::PortRef place, const sm::Options& options);

  [[nodiscard]] net::PortRef place() const { return place_; }
  // Requests that go to a subnet manager: SMInfo, traps, subnet administration.
  [[nodiscard]] static bool wants(const wire::Packet& packet);
  void received(const wire::Packet& packet, u64 now) { manager_->received(packet, now); }
  u64 on_time(u64 now) { return manager_->on_time(now); }
  [[nodiscard]] bool subnet_up() const { return manager_->subnet_up(); }
  [[nodiscard]] sm::State state() const { return manager_->state(); }

 private:
  void send(const wire::Packet& packet) override { network_.send(place_, packet); }
  void log(std::string_view line) override;

  net::Network& network_;
  net::PortRef place_;
  std::unique_ptr<sm::SubnetManager> manager_;
};

}  // namespace softib::daemon
