// The performance management agent of a node (IBTA vol. 1, 16.1).
#pragma once

#include "net/pma/monitor.h"
#include "net/world.h"

namespace softib::net {

// Answers a Get or Set that came through `port`, in place (the data; not the header).
[[nodiscard]] wire::MadStatus pma(World& world, Port& port, Packet& packet);

struct PmaCall {
  World& world;
  Node& node;
  Port& port;  // that it came through
  bool set;
  std::span<u8> data;  // 192 bytes

  void clear() const { std::fill(data.begin(), data.end(), u8{0}); }
};

using PmaHandler = wire::MadStatus(const PmaCall&);
PmaHandler pma_class_port_info, pma_samples_control, pma_samples_result;

// The ports that PortSelect names: one, or all external ones of the node. Empty: no such port.
[[nodiscard]] std::span<Port> selected_ports(const PmaCall& call);

// Starts and ends samplings that are due; gives when the next one is.
u64 sample(World& world);

}  // namespace softib::net
