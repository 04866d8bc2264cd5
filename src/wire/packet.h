// A management packet on the wire: one MAD, and what the headers around it say.
#pragma once

#include <array>
#include <optional>
#include <utility>

#include "wire/mad.h"

namespace softib::wire {

using GidBytes = std::array<u8, 16>;

inline constexpr u32 gsi_qkey = 0x8001'0000;  // queue pair 1 has no other

struct GlobalRoute {
  GidBytes source{};
  GidBytes destination{};
  u32 flow_label = 0;
  u8 hop_limit = 0;
  u8 traffic_class = 0;
};

struct Packet {
  u16 slid = 0;
  u16 dlid = 0;  // permissive_lid: one link far, or along the directed route
  u8 sl = 0;
  u16 pkey = 0xffff;  // GMPs
  u32 source_qp = 0;
  u32 destination_qp = 0;
  u32 qkey = gsi_qkey;  // GMPs
  std::optional<GlobalRoute> global;
  Mad mad{};
};

// Sends it back where it came from: what an answer begins with. Not for directed routes, whose LIDs stay.
inline void turn_round(Packet& packet) {
  std::swap(packet.slid, packet.dlid);
  std::swap(packet.source_qp, packet.destination_qp);
  if (packet.global) std::swap(packet.global->source, packet.global->destination);
}

}  // namespace softib::wire
