#include "net/traps.h"

#include <algorithm>

#include "net/world.h"
#include "wire/smp_attributes.h"

namespace softib::net {

namespace {

using wire::NoticeType;
using wire::TrapNumber;
namespace notice = wire::notice;

// Traps of which a port has one for each thing that they tell of; of the others it has one, the newest.
bool by_details(TrapNumber number) {
  return number >= TrapNumber::link_integrity && number <= TrapNumber::flow_control_watchdog;
}

std::span<const u8> details(const Attribute& notice) {
  return std::span(notice).subspan(notice::details_at, notice::details_size);
}

bool same_details(const Attribute& a, const Attribute& b) {
  return std::equal(details(a).begin(), details(a).end(), details(b).begin());
}

Packet trap_packet(const Port& issuer, u64 transaction, const Attribute& data) {
  Packet packet;
  packet.slid = issuer.lid;
  packet.dlid = issuer.sm_lid;
  packet.sl = issuer.sm_sl;
  wire::set(packet.mad, wire::header::base_version, 1);
  wire::set(packet.mad, wire::header::mgmt_class, static_cast<u8>(wire::MgmtClass::subn_lid));
  wire::set(packet.mad, wire::header::class_version, 1);
  wire::set(packet.mad, wire::header::method, static_cast<u8>(wire::Method::trap));
  wire::set(packet.mad, wire::header::transaction, transaction);
  wire::set(packet.mad, wire::header::attribute, static_cast<u16>(wire::SmpAttribute::notice));
  std::copy(data.begin(), data.end(), packet.mad.begin() + wire::smp::data_at);
  return packet;
}

void copy_path(Attribute& details, const wire::Mad& mad) {
  const u64 hops = std::min<u64>(wire::get(mad, wire::header::hop_count), notice::path_size);
  wire::set(details, notice::is_directed, 1);
  wire::set(details, notice::path_truncated, hops != wire::get(mad, wire::header::hop_count));
  wire::set(details, notice::path_hops, hops);
  const auto path = mad.begin() + wire::smp::return_path_at + 1;
  std::copy_n(path, std::min<u64>(hops, notice::path_size), details.begin() + notice::path_at);
}

void write_ends(Attribute& details, const BadKey& packet, u32 gid1_at) {
  std::copy(packet.source.begin(), packet.source.end(), details.begin() + gid1_at);
  std::copy(packet.destination.begin(), packet.destination.end(), details.begin() + gid1_at + 16);
  wire::set(details, notice::lid, packet.slid);
  wire::set(details, notice::lid2, packet.dlid);
}

}  // namespace

void Traps::link_state(u32 node) {
  const Port& port = world_.port({node, 0});
  Attribute details{};
  wire::set(details, notice::switch_lid, port.lid);
  raise(port, TrapNumber::link_state, NoticeType::urgent, details);
}

void Traps::link_trouble(const Port& port, TrapNumber which) {
  const Port& issuer = world_.managed(port);
  Attribute details{};
  wire::set(details, notice::lid, issuer.lid);
  wire::set(details, notice::port, port.ref.port);
  raise(issuer, which, NoticeType::urgent, details);
}

void Traps::local_change(const Port& port, u16 change_flags) {
  const Port& issuer = world_.managed(port);
  Attribute details{};
  wire::set(details, notice::lid, issuer.lid);
  wire::set(details, notice::other_local_changes, change_flags != 0);
  wire::set(details, notice::capability_mask, issuer.capabilities);
  wire::set(details, notice::change_flags, change_flags);
  wire::set(details, notice::capability_mask2, issuer.capabilities2);
  raise(issuer, TrapNumber::local_changes, NoticeType::informational, details);
}

void Traps::bad_m_key(const Port& port, const Packet& packet) {
  Attribute details{};
  const bool directed = wire::class_of(packet.mad) == wire::MgmtClass::subn_directed;
  wire::set(details, notice::lid, port.lid);
  wire::set(details, notice::dr_slid, directed ? wire::get(packet.mad, wire::smp::dr_slid) : packet.slid);
  wire::set(details, notice::method, wire::get(packet.mad, wire::header::method));
  wire::set(details, notice::attribute, wire::attribute_of(packet.mad));
  wire::set(details, notice::modifier, wire::get(packet.mad, wire::header::modifier));
  wire::set(details, notice::m_key, wire::get(packet.mad, wire::smp::m_key));
  if (directed) copy_path(details, packet.mad);
  raise(port, TrapNumber::bad_m_key, NoticeType::security, details);
}

void Traps::bad_key(const Port& port, TrapNumber which, const BadKey& packet) {
  Attribute details{};
  if (which == TrapNumber::bad_p_key_at_switch) {
    constexpr u32 gid1_at_259 = 26;
    constexpr u16 lids_valid = 3;
    write_ends(details, packet, gid1_at_259);
    wire::set(details, notice::data_valid, lids_valid);
    wire::set(details, notice::p_key, packet.key);
    wire::set(details, notice::sl_259, packet.sl);
    wire::set(details, notice::qp1_259, packet.source_qp);
    wire::set(details, notice::qp2_259, packet.destination_qp);
    wire::set(details, notice::switch_lid_259, world_.managed(port).lid);
    wire::set(details, notice::switch_port_259, port.ref.port);
  } else {
    write_ends(details, packet, notice::gid1_at);
    wire::set(details, notice::key, packet.key);
    wire::set(details, notice::sl, packet.sl);
    wire::set(details, notice::qp1, packet.source_qp);
    wire::set(details, notice::qp2, packet.destination_qp);
  }
  raise(world_.managed(port), which, NoticeType::security, details);
}

void Traps::raise(const Port& issuer, TrapNumber number, NoticeType type, const Attribute& contents) {
  if (issuer.sm_lid == 0 || issuer.lid == 0) return;  // nobody to tell
  Attribute data = contents;
  wire::set(data, notice::is_generic, 1);
  wire::set(data, notice::type, static_cast<u8>(type));
  wire::set(data, notice::producer, static_cast<u8>(world_.node(issuer).kind));
  wire::set(data, notice::trap_number, static_cast<u16>(number));
  wire::set(data, notice::issuer_lid, issuer.lid);
  if (Pending* known = find(issuer, number, data)) {
    if (known->stage == Stage::sent && same_details(known->notice, data)) return;  // it is being repeated anyway
    known->stage = Stage::waiting;                                                 // not again so soon
    known->transaction = ++transactions_;
    known->notice = data;
    return;
  }
  pending_.push_back({issuer.ref, number, Stage::waiting, ++transactions_, 0, data});
  send(pending_.back());
}

Traps::Pending* Traps::find(const Port& issuer, TrapNumber number, const Attribute& data) {
  for (Pending& pending : pending_)
    if (pending.issuer == issuer.ref && pending.number == number &&
        (!by_details(number) || same_details(pending.notice, data)))
      return &pending;
  return nullptr;
}

void Traps::send(Pending& pending) {
  pending.stage = Stage::sent;
  const PortRef issuer = pending.issuer;
  world_.post.send(issuer, trap_packet(world_.port(issuer), pending.transaction, pending.notice));
}

void Traps::repress(const Port& port, std::span<const u8> mad) {
  Attribute data;
  std::copy_n(mad.begin() + wire::smp::data_at, data.size(), data.begin());
  const u64 number = wire::get(data, notice::trap_number);
  for (Pending& pending : pending_) {
    if (pending.issuer != port.ref || pending.stage != Stage::sent) continue;
    const bool same = static_cast<u16>(pending.number) == number && same_details(pending.notice, data);
    if (same || pending.transaction == wire::get(mad, wire::header::transaction)) pending.stage = Stage::repressed;
  }
}

void Traps::forget(u32 node) {
  std::erase_if(pending_, [&](const Pending& pending) { return pending.issuer.node == node; });
}

u64 Traps::interval(const Pending& pending) const {
  constexpr u64 unit_ns = 4096;
  constexpr u64 shortest_ns = 50'000'000;  // a manager that hasn't set SubnetTimeOut is not to be flooded
  return std::max(unit_ns << world_.port(pending.issuer).subnet_timeout, shortest_ns);
}

u64 Traps::on_time(u64 now) {
  u64 next = ~u64{0};
  const Post::Hold hold(world_.post);
  for (Pending& pending : pending_) {
    if (pending.due == 0) pending.due = now + interval(pending);
    if (pending.due <= now && pending.stage != Stage::repressed && world_.port(pending.issuer).sm_lid != 0) {
      send(pending);
      pending.due = now + interval(pending);
    }
    next = std::min(next, pending.due);
  }
  std::erase_if(pending_, [&](const Pending& pending) { return pending.due <= now; });
  return next;
}

}  // namespace softib::net
