// UD: SEND and SEND with immediate, to one QP or to a multicast group.

#include <algorithm>
#include <cstring>
#include <optional>
#include <span>

#include "hca/engine/passage.h"
#include "hca/engine/responder.h"
#include "hca/engine/route.h"
#include "hca/engine/send_work.h"
#include "hca/engine/way.h"
#include "hca/rules/wire_cost.h"
#include "wire/pkey.h"

namespace softib::hca {

namespace {

using ipc::Qp;

constexpr u32 controlled_qkey = 0x8000'0000;
constexpr u32 multicast_qpn = 0xff'ffff;
constexpr u8 next_header_iba = 0x1b;
constexpr u8 next_header_udp = 17;
constexpr u8 ip_version_6 = 6;

u32 bytes_of_mtu(u8 code) { return code >= 1 && code <= 5 ? 128U << code : 4096U; }

void put16(u8* at, u16 value) {
  at[0] = static_cast<u8>(value >> 8);
  at[1] = static_cast<u8>(value);
}

// The Global Route Header, as a receiver finds it in front of its payload (IBTA 8.3):
//
//   0   IP version 4 bits, traffic class 8, flow label 20
//   4   payload length 16, next header 8, hop limit 8
//   8   source GID, 24 destination GID
void write_grh(u8* grh, const ipc::Port& from, const ipc::AddressVector& av, u64 length) {
  u32 first = (u32{ip_version_6} << 28) | (u32{av.traffic_class} << 20) | (av.flow_label & 0xf'ffff);
  put16(grh, static_cast<u16>(first >> 16));
  put16(grh + 2, static_cast<u16>(first));
  constexpr u32 transport = 12 + 8 + 4;  // BTH, DETH, ICRC
  put16(grh + 4, static_cast<u16>(length + transport));
  grh[6] = from.link_layer == ipc::LinkLayer::ethernet ? next_header_udp : next_header_iba;
  grh[7] = av.hop_limit;
  std::memcpy(grh + 8, from.gids[av.sgid_index % ipc::max_gids_per_port].raw, 16);
  std::memcpy(grh + 24, av.dgid.raw, 16);
}

struct Datagram {
  const SendWork& work;
  ipc::Ah& ah;
  const ipc::AddressVector& av;
  const Buffers& payload;
  const u8* grh;  // nullptr: sent without
  u32 qkey;
};

// Deliveries that fail do so in silence, as packets do.
void deliver_datagram(Context& context, Qp& target, const Datagram& datagram) {
  const Qp& qp = datagram.work.qp;
  if (target.type != ipc::QpType::ud || !can_talk(context, qp.port, target.port)) return;
  if (!wire::keys_match(qp.pkey, target.pkey)) {
    context.violations.note(ipc::KeyViolation::p_key, context.port(target.port), qp, target, qp.pkey);
    return;
  }
  if (target.qkey != datagram.qkey) {
    context.violations.note(ipc::KeyViolation::q_key, context.port(target.port), qp, target, datagram.qkey);
    return;
  }
  Delivery message{};
  message.opcode = WcOpcode::recv;
  if (datagram.grh) message.wc_flags |= wc_grh;
  if (datagram.work.opcode() == WrOpcode::send_with_imm) {
    message.wc_flags |= wc_with_imm;
    message.immediate = datagram.work.wqe.wr.ex.invalidate_rkey;
  }
  message.solicited = datagram.work.has(send_solicited);
  message.payload = &datagram.payload;
  message.byte_count = datagram.payload.total;
  message.grh = datagram.grh;
  message.src_qp = qp.qpn;
  message.slid = context.port(qp.port).lid;
  message.sl = datagram.av.sl;
  static_cast<void>(deliver(context, target, message));
}

bool gets_copy(std::span<const u32> reached, u32 port, const std::vector<bool>& lost) {
  const auto found = std::lower_bound(reached.begin(), reached.end(), port);
  if (found == reached.end() || *found != port) return false;
  const auto at = static_cast<size_t>(found - reached.begin());
  return at >= lost.size() || !lost[at];
}

// The members as they stand; softibd replaces the list, so a changed sequence means to look again.
void deliver_to_group(Context& context, const Datagram& datagram, u32 index, const std::vector<bool>& lost) {
  const bool everyone = datagram.ah.av.reach == ipc::Reach::everyone;
  const std::span<const u32> reached = WayView(context.segment, datagram.ah.av).ports();
  ipc::Group& group = context.segment.groups[index & (ipc::max_groups - 1)];
  u64 list;
  u32 count, sequence;
  do {
    sequence = group.sequence.load(std::memory_order_acquire);
    list = group.members.load(std::memory_order_relaxed);
    count = group.member_count.load(std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_acquire);
  } while ((sequence & 1) || group.sequence.load(std::memory_order_relaxed) != sequence);
  u64 room = (ipc::arena_size - (list & (ipc::arena_size - 1))) / sizeof(u32);
  auto* members = reinterpret_cast<const u32*>(context.segment.arena + (list & (ipc::arena_size - 1)));
  for (u32 i = 0; i < std::min<u64>(count, room); ++i) {
    Qp* member = context.qp(members[i]);
    if (member && (everyone || gets_copy(reached, member->port, lost))) deliver_datagram(context, *member, datagram);
  }
}

void deliver_to_one(Context& context, const Datagram& datagram, u32 qpn, u32 port) {
  Qp* target = context.qp(qpn);
  if (target && target->port == port) deliver_datagram(context, *target, datagram);
}

ipc::Ah* find_ah(Context& context, const SendWork& work) {
  u32 index = work.wqe.wr.wr.ud.ah_num;
  if (index == 0 || index >= ipc::max_ahs) return nullptr;
  ipc::Ah& ah = context.segment.ahs[index];
  bool usable = ah.generation.load(std::memory_order_acquire) && ah.pd == work.qp.pd && ah.port == work.qp.port;
  return usable ? &ah : nullptr;
}

}  // namespace

Outcome carry_out_datagram(Context& context, const SendWork& work) {
  if (work.opcode() != WrOpcode::send && work.opcode() != WrOpcode::send_with_imm)
    return Outcome::failure(WcStatus::loc_qp_op_err);
  ipc::Ah* ah = find_ah(context, work);
  if (!ah) return Outcome::failure(WcStatus::loc_qp_op_err);
  Buffers local;
  WcStatus status = gather(context, work, LocalUse::read, local);
  if (status != WcStatus::success) return Outcome::failure(status);
  const ipc::Port& port = context.port(work.qp.port);
  if (local.total > bytes_of_mtu(port.active_mtu)) return Outcome::failure(WcStatus::loc_len_err);

  u8 grh[grh_size];
  bool global = ah->av.is_global || ah->av.group || port.link_layer == ipc::LinkLayer::ethernet;
  if (global) write_grh(grh, port, ah->av, local.total);
  const auto& ud = work.wqe.wr.wr.ud;
  u32 qkey = ud.remote_qkey & controlled_qkey ? work.qp.qkey : ud.remote_qkey;
  const u32 there = port_behind(context, ud.ah_num, *ah);
  const WireCost cost = wire_cost(ipc::QpType::ud, work.opcode(), local.total, work.qp.path_mtu, global);
  std::optional<Outcome> held;
  if (must_pass(ah->av)) [[unlikely]]
    held = pass(context, work, ah->av, cost);
  if (held && held->verdict == Verdict::on_its_way) return *held;
  ah->traffic.out_packets.fetch_add(cost.out_packets, std::memory_order_relaxed);
  ah->traffic.out_words.fetch_add(cost.out_words, std::memory_order_relaxed);
  if (held) return *held;

  Datagram datagram{work, *ah, ah->av, local, global ? grh : nullptr, qkey};
  if (ah->av.group && ud.remote_qpn == multicast_qpn)
    deliver_to_group(context, datagram, ah->av.group, lost_copies(context, ah->av, cost));
  else
    deliver_to_one(context, datagram, ud.remote_qpn, there);
  return Outcome::success();
}

}  // namespace softib::hca
