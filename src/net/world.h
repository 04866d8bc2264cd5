// The whole network's state, and what each of its parts needs from the others.
#pragma once

#include <random>

#include "net/flights.h"
#include "net/post.h"
#include "net/state.h"
#include "net/traps.h"

namespace softib::net {

// To the observer, once there is one: nobody hears of how the network is built.
class Relay {
 public:
  void attach(Observer& to) { to_ = &to; }
  void received(PortRef at, const Packet& packet) const {
    if (to_) to_->received(at, packet);
  }
  void port_changed(PortRef port) const {
    if (to_) to_->port_changed(port);
  }
  void routes_changed(u32 node) const {
    if (to_) to_->routes_changed(node);
  }
  void about_to_show(PortRef port) const {
    if (to_) to_->about_to_show(port);
  }
  void about_to_count() const {
    if (to_) to_->about_to_count();
  }
  void reregister(PortRef port) const {
    if (to_) to_->reregister(port);
  }

 private:
  Observer* to_ = nullptr;
};

struct World {
  World() : post(*this), traps(*this) {}

  Relay observer;
  std::vector<Node> nodes;
  std::vector<Port> ports;
  std::vector<Cable> cables;
  u32 switch_count = 0;
  std::vector<u32> first_hca;  // by host
  Post post;
  Flights flights;
  Traps traps;
  u64 now = 0;
  u64 began = 0;               // the first `now` that came in
  std::minstd_rand random{1};  // faults only; the same each time
  u32 bad_cables = 0;          // with a bit error rate
  u32 samplings = 0;           // ports at which PMA has been asked to sample
  u32 leases = 0;              // ports whose M_Key lease may run

  [[nodiscard]] bool valid(PortRef ref) const { return ref.node < nodes.size() && ref.port <= nodes[ref.node].ports; }
  [[nodiscard]] u32 index(PortRef ref) const { return nodes[ref.node].first + ref.port; }
  Port& port(PortRef ref) { return ports[index(ref)]; }
  [[nodiscard]] const Port& port(PortRef ref) const { return ports[index(ref)]; }
  Node& node(const Port& at) { return nodes[at.ref.node]; }
  [[nodiscard]] const Node& node(const Port& at) const { return nodes[at.ref.node]; }

  // The port whose LID, M_Key and manager hold at `at`: port 0 of a switch, else itself.
  Port& managed(const Port& at) { return port({at.ref.node, managed_number(at)}); }
  [[nodiscard]] const Port& managed(const Port& at) const { return port({at.ref.node, managed_number(at)}); }

 private:
  [[nodiscard]] u8 managed_number(const Port& at) const { return node(at).sw ? u8{0} : at.ref.port; }
};

[[nodiscard]] inline bool has_lid(const Port& port, u16 lid) {
  return port.lid != 0 && lid >= port.lid && lid - port.lid < 1 << port.lmc;
}

// Fills `world` from a fabric; its links are trained.
void build(World& world, const fabric::Fabric& fabric);
// A node as it is when it gets its power: no LIDs, empty tables, everything enabled. Its links are down.
void boot(World& world, Node& node);

}  // namespace softib::net
