// What the manager knows of its subnet: nodes, ports, links, LIDs. Rebuilt by each heavy sweep.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/types.h"
#include "fabric/partitions.h"
#include "wire/packet.h"
#include "wire/pkey.h"
#include "wire/smp_attributes.h"

namespace softib::sm {

using wire::default_key;
using wire::Field;
using wire::full_member;
using wire::GidBytes;
using wire::SmpAttribute;
using Kind = fabric::NodeType;
namespace node_info = wire::node_info;
namespace switch_info = wire::switch_info;
namespace port_info = wire::port_info;
namespace port_cap = wire::port_cap;
namespace sm_info = wire::sm_info;

inline constexpr u32 node_info_size = 40;  // of the 64 bytes of the attribute
inline constexpr u32 switch_info_size = 20;
inline constexpr u32 port_info_size = 64;

inline constexpr u32 nowhere = ~0U;
inline constexpr u16 last_unicast_lid = 0xbfff;
inline constexpr u8 no_port = 0xff;  // in a forwarding table

enum class LinkState : u8 { nop = 0, down = 1, init = 2, armed = 3, active = 4 };

// A directed route from the manager's port.
struct Path {
  u8 hops = 0;
  std::array<u8, 64> ports{};  // [1] is the manager's own port

  [[nodiscard]] std::optional<Path> then(u8 port) const {
    if (hops >= 63) return std::nullopt;
    Path longer = *this;
    longer.ports[++longer.hops] = port;
    return longer;
  }
};

struct End {
  u32 node = nowhere;
  u8 port = 0;
  friend auto operator<=>(const End&, const End&) = default;
};

struct Port {
  std::array<u8, port_info_size> info{};  // as last read or set; zeros: not seen
  u64 guid = 0;                           // of an end port
  End peer;                               // other end of the link, where it was found
  u16 lid = 0;                            // of an end port
  u8 lmc = 0;
  u8 rate = 0;  // PathRecord code of the link; by note_rates()
  bool known = false;
  Path path;               // to an end port
  std::vector<u16> pkeys;  // of an end port; 0: a free place

  [[nodiscard]] u64 get(Field field) const { return wire::get(info, field); }
  [[nodiscard]] LinkState state() const { return static_cast<LinkState>(get(port_info::port_state)); }
  [[nodiscard]] bool linked() const { return peer.node != nowhere; }
};

struct Node {
  Kind kind = Kind::ca;
  u64 guid = 0;
  std::array<u8, node_info_size> info{};
  std::array<u8, 64> description{};
  std::array<u8, switch_info_size> switch_info{};
  std::vector<Port> ports;  // by number; [0] is a switch's own
  u32 sw = nowhere;         // index in Subnet::switches

  [[nodiscard]] bool is_switch() const { return kind == Kind::sw; }
  // A switch's own end node, for in-network reduction: it makes no leaf of a spine.
  [[nodiscard]] bool is_aggregation_node() const;
  [[nodiscard]] std::string name() const;  // for people
};

struct Subnet {
  std::vector<Node> nodes;
  std::vector<u32> switches;  // node numbers
  std::vector<End> ends;      // end ports: those that get LIDs
  End own;
  std::vector<u32> by_lid;                    // place in `ends`, by LID
  std::unordered_map<u64, u32> by_port_guid;  // place in `ends`

  [[nodiscard]] Node& node(End end) { return nodes[end.node]; }
  [[nodiscard]] const Node& node(End end) const { return nodes[end.node]; }
  [[nodiscard]] Port& port(End end) { return nodes[end.node].ports[end.port]; }
  [[nodiscard]] const Port& port(End end) const { return nodes[end.node].ports[end.port]; }
  [[nodiscard]] u16 own_lid() const { return nodes.empty() ? u16{0} : port(own).lid; }
  [[nodiscard]] std::optional<End> end_of_lid(u32 lid) const;
  [[nodiscard]] std::optional<End> end_of_guid(u64 port_guid) const;
  [[nodiscard]] const Path& path(End end) const { return node(end).ports[node(end).is_switch() ? 0 : end.port].path; }
  // A switch's ports all go by the LID of its port 0.
  [[nodiscard]] u16 lid_of(End end) const { return port(node(end).is_switch() ? End{end.node, 0} : end).lid; }
};

// Fills in the rates of all ports.
void note_rates(Subnet& subnet);

[[nodiscard]] std::string hex(u64 guid);

}  // namespace softib::sm
