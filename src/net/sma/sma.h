// The subnet management agent of a node: Get and Set of its attributes.
#pragma once

#include <optional>

#include "net/world.h"
#include "wire/smp_attributes.h"

namespace softib::net {

// Answers in place (the data; not the header). Nothing: the M_Key forbids an answer.
[[nodiscard]] std::optional<wire::MadStatus> sma(World& world, u32 at, Packet& packet);

inline constexpr u8 vl_cap = 4;  // as PortInfo codes it: VL 0 to 7

struct SmaCall {
  World& world;
  Node& node;
  Port& port;  // through which the request came; port 0: from within the switch
  bool set;
  bool key_fits;  // the M_Key in the MAD is the port's
  u32 modifier;
  std::span<u8> data;  // 64 bytes: as sent, and then as answered

  void clear() const { std::fill(data.begin(), data.end(), u8{0}); }
};

using SmaHandler = wire::MadStatus(const SmaCall&);

SmaHandler sma_node_description, sma_node_info, sma_switch_info, sma_guid_info, sma_port_info, sma_pkey_table,
    sma_sl_to_vl, sma_vl_arbitration, sma_linear_forwarding, sma_multicast_forwarding, sma_led_info, sma_vendor_diag,
    sma_mlnx_ext_port_info;

// Whether the M_Key of the SMP lets it pass; if not, that is counted and told of.
enum class KeyCheck : u8 { fits, allowed, refused };
[[nodiscard]] KeyCheck check_m_key(World& world, Port& port, const Packet& packet);
u64 end_leases(World& world);  // those that have run out; gives when the next one does

// The port of `number` that the call is about; a CA's 0 is the one it came through.
[[nodiscard]] Port* port_of(const SmaCall& call, u32 number);

// PortInfo as Get answers it.
void write_port_info(const World& world, const Port& port, std::span<u8> data);
// Checks and does what Set asks for.
[[nodiscard]] wire::MadStatus set_port_info(const SmaCall& call, Port& port);

}  // namespace softib::net
