// The fabric as its management sees it: nodes with ports, links between them, forwarding tables, counters, and the
// agents in each node that answer MADs (SMA, PMA). Packets travel by directed route or by the switches' tables, hop by
// hop, within one call. No sockets, no threads, no clock inside: time comes in by on_time().
//
// What is not the business of a node's own agents (responses, SA, CM, vendor classes, traps to the subnet manager)
// comes out at the port it was sent to, by Observer::received(): there umad agents and the built-in subnet manager sit.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/types.h"
#include "fabric/fabric.h"
#include "wire/notice.h"
#include "wire/packet.h"

namespace softib::net {

using wire::Packet;

enum class NodeKind : u8 { ca = 1, sw = 2, router = 3 };  // NodeInfo.NodeType

// A port of a node. Port 0 of a switch is its management port; a CA's are numbered from 1.
struct PortRef {
  u32 node = 0;
  u8 port = 0;
  friend auto operator<=>(const PortRef&, const PortRef&) = default;
};

enum class PhysicalState : u8 { sleep = 1, polling = 2, disabled = 3, training = 4, up = 5, recovery = 6 };

// What a port's PortInfo says that others must follow. The rest stays inside.
struct PortView {
  ipc::PortState state = ipc::PortState::down;
  PhysicalState physical = PhysicalState::polling;
  u16 lid = 0;
  u8 lmc = 0;
  u16 sm_lid = 0;
  u8 sm_sl = 0;
  u32 capabilities = 0;  // CapabilityMask
  fabric::Mtu active_mtu = fabric::Mtu::b256;
  fabric::Speed speed = fabric::Speed::sdr;
  fabric::Width width = fabric::Width::x1;
  u64 guid = 0;
  u64 gid_prefix = 0xfe80'0000'0000'0000;
  std::span<const u16> pkeys;  // valid until the next call that changes the port
  std::span<const u64> guids;  // GUIDInfo; 0 = unused
};

class Observer {
 public:
  virtual ~Observer() = default;
  // A packet for a queue pair 0 or 1 (packet.destination_qp) that no agent of the node answers.
  virtual void received(PortRef at, const Packet& packet) = 0;
  // PortView or link state changed. For every port, switches' too.
  virtual void port_changed(PortRef port) = 0;
  // A forwarding or SL table of the node changed: cached routes are stale.
  virtual void routes_changed(u32 node) = 0;
  // The subnet manager asks the port's clients to register anew (PortInfo.ClientReregister).
  virtual void reregister(PortRef) {}
  // Somebody reads the port's PortInfo: what it counts is to be up to date.
  virtual void about_to_show(PortRef) {}
  // Performance management is asked for counters: what the data path has counted is to be there.
  virtual void about_to_count() {}
};

// Why a packet did not arrive.
enum class Loss : u8 { none, source_down, no_route, link_down, bad_pkey, loop, dropped };

struct Hop {
  PortRef out;
  PortRef in;
};

// The same links the other way round.
[[nodiscard]] std::vector<Hop> reversed(const std::vector<Hop>& hops);

// Where a packet from a port goes.
struct Path {
  Loss loss = Loss::none;
  PortRef end;            // the last port that it reached
  bool leaving = false;   // it got lost on its way out of `end`, not into it
  std::vector<Hop> hops;  // links crossed, in order
};

enum class Cause : u8 {
  symbol_error,
  link_recovery,
  link_downed,
  receive_error,
  remote_physical,
  switch_relay,
  xmit_discard,
  xmit_constraint,
  receive_constraint,
  local_integrity,
  buffer_overrun,
  vl15_dropped,
  xmit_wait,
  flow_control_watchdog  // trap 131; no counter of PMA
};
inline constexpr u32 cause_count = 14;

// A packet whose key an end did not accept, for the trap that tells of it.
struct BadKey {
  u32 key = 0;
  u16 slid = 0;
  u16 dlid = 0;
  u8 sl = 0;
  u32 source_qp = 0;
  u32 destination_qp = 0;
  wire::GidBytes source{};
  wire::GidBytes destination{};
};

// What faults do to a link, beside up and down. Both directions.
struct LinkQuality {
  double bit_error_rate = 0;  // errors a bit
  double drop = 0;            // share of packets that get lost, 0 to 1
  u64 delay_ns = 0;
  friend bool operator==(const LinkQuality&, const LinkQuality&) = default;
};

// What has been done to a cable on purpose.
struct LinkFaults {
  bool cut = false;
  std::optional<fabric::Speed> speed;  // the most that it trains to
  std::optional<fabric::Width> width;
  LinkQuality quality;
};

class Network {
 public:
  // Nodes in this order: all switches of `fabric`, then hosts' HCAs host by host. With a built-in or foreign subnet
  // manager all cabled ports begin in INIT without LIDs.
  static std::unique_ptr<Network> create(const fabric::Fabric& fabric, Observer& observer);
  virtual ~Network() = default;

  [[nodiscard]] virtual u32 node_count() const = 0;
  [[nodiscard]] virtual NodeKind kind(u32 node) const = 0;
  [[nodiscard]] virtual u8 port_count(u32 node) const = 0;  // without port 0
  [[nodiscard]] virtual u64 node_guid(u32 node) const = 0;
  [[nodiscard]] virtual const std::string& description(u32 node) const = 0;
  virtual void set_description(u32 node, std::string_view text) = 0;
  [[nodiscard]] virtual u32 switch_node(u32 switch_index) const = 0;
  [[nodiscard]] virtual u32 hca_node(u32 host, u32 hca) const = 0;
  [[nodiscard]] virtual PortView port(PortRef ref) const = 0;
  [[nodiscard]] virtual std::optional<PortRef> other_end(PortRef ref) const = 0;  // of the cable

  // Bits of CapabilityMask that depend on who listens at the port: IsSM, IsConnectionManagementSupported and so on.
  virtual void set_capabilities(PortRef ref, u32 bits, bool on) = 0;
  // Whether port 0 of a switch is an enhanced one: with a port state, P_Keys and LMC as a CA's. Base ones at first.
  virtual void set_enhanced_port_0(u32 node, bool enhanced) = 0;
  // The LIDs that the port had from an earlier manager: one that starts keeps them if it can.
  virtual void preset_lid(PortRef ref, u16 lid, u8 lmc = 0) = 0;

  // Sends from a port's QP 0 or 1. A MAD that is for the port itself is answered there. Called from within an
  // Observer, it returns at once and the packet travels when the one under way has arrived.
  virtual void send(PortRef from, const Packet& packet) = 0;

  // Traps that are to be repeated, and whatever else has its time. Gives when to call again (CLOCK_MONOTONIC ns), ~0:
  // not before something happens. What happens between two calls has the time of the next one, so call it after any
  // other call that isn't const.
  virtual u64 on_time(u64 now) = 0;

  // -- forwarding, for the data path
  [[nodiscard]] virtual Path walk(PortRef from, u16 dlid, u8 sl, u16 pkey) const = 0;
  // Each end that a packet to the multicast LID reaches, the sender not among them. Copies that get lost are there too.
  [[nodiscard]] virtual std::vector<Path> walk_multicast(PortRef from, u16 mlid, u8 sl, u16 pkey) const = 0;

  // -- counters: `words` are the 4-byte words that PortXmitData counts
  struct Traffic {
    u64 packets = 0;
    u64 words = 0;
    bool multicast = false;
    u8 sl = 0;
  };
  virtual void count(std::span<const Hop> hops, const Traffic& traffic) = 0;
  virtual void count(PortRef port, Cause cause, u64 times) = 0;
  // What a walk that ended early does to counters and traps at the port where it ended.
  virtual void count_loss(const Path& path, const BadKey& packet, u64 times) = 0;
  // Packets that a port's queue pairs refused for their keys: on PortInfo's counters, and the trap that tells of one.
  virtual void add_violations(PortRef at, u64 p_keys, u64 q_keys) = 0;
  [[nodiscard]] virtual std::pair<u16, u16> violations(
      PortRef at) const = 0;  // of P_Keys and Q_Keys, as PortInfo has them
  virtual void tell_bad_key(PortRef at, wire::TrapNumber trap, const BadKey& packet) = 0;
  struct Counters {
    u64 xmit_words, receive_words, xmit_packets, receive_packets, unicast_xmit, unicast_receive, multicast_xmit,
        multicast_receive;
    u64 of[cause_count];  // by Cause
  };
  [[nodiscard]] virtual Counters counters(PortRef port) const = 0;  // since the start, whatever PMA resets
  // The performance management agent at the port answers a Get or Set in place: as a driver asks its own, no packet
  // travels.
  virtual wire::MadStatus ask_pma(PortRef port, Packet& request) = 0;

  // -- faults. They act on the cable: both ports see it.
  virtual void cut(PortRef port) = 0;  // link down: a cable pulled; counted, trap 128
  virtual void mend(PortRef port) = 0;
  virtual void limit(PortRef port, std::optional<fabric::Speed> speed, std::optional<fabric::Width> width) = 0;
  // Bit errors are counted from the next on_time() on.
  virtual void set_quality(PortRef port, const LinkQuality& quality) = 0;
  [[nodiscard]] virtual LinkQuality quality(PortRef port) const = 0;
  virtual void power(u32 node, bool on) = 0;  // all its links go down; tables and LIDs are forgotten when it comes back
  // Both ports of the cable as after power-up: enabled, with all their speeds and widths. False: they are so.
  virtual bool enable_ports(PortRef port) = 0;
  virtual void swap_cables(PortRef a, PortRef b) = 0;  // the far ends change places
  virtual void stick_counters(PortRef port, bool stuck) = 0;
  [[nodiscard]] virtual LinkFaults faults(PortRef port) const = 0;  // of the cable in it
  [[nodiscard]] virtual bool is_on(u32 node) const = 0;
  [[nodiscard]] virtual bool is_stuck(PortRef port) const = 0;
};

}  // namespace softib::net
