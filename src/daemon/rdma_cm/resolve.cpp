// From addresses to ports, and from ports to paths.
#include <algorithm>
#include <cstring>

#include "base/durations.h"
#include "daemon/port_record.h"
#include "daemon/rdma_cm/host.h"
#include "daemon/rdma_cm/path_record.h"
#include "fabric/rates.h"
#include "wire/pkey.h"

namespace softib::daemon {

namespace {

constexpr u8 ethernet_packet_life = 18;
constexpr u8 ethernet_hop_limit = 64;

GidBytes gid_bytes(const ipc::Gid& gid) {
  GidBytes bytes;
  std::memcpy(bytes.data(), gid.raw, bytes.size());
  return bytes;
}

// An address as the newer commands give it: its size must be that of its family.
Result<SocketAddress> sized_address(std::span<const u8> bytes, u32 size) {
  auto address = parse_address(bytes);
  if (!address || size != size_of_family(address->family)) return fail(EINVAL);
  return *address;
}

// Service ids of AF_IB that stand for port spaces (IBTA annex A11).
struct IbSpace {
  u64 service_id;
  PortSpace space;
};
constexpr u64 ib_space_mask = 0xffff'ffff'ffff'0000;
constexpr IbSpace ib_spaces[] = {{0x0000'0000'013f'0000, PortSpace::ib},
                                 {0x0000'0000'0106'0000, PortSpace::tcp},
                                 {0x0000'0000'0111'0000, PortSpace::udp}};

PortSpace ib_space_of(PortSpace space, const SocketAddress& address) {
  const u64 mask = address.service_mask & ib_space_mask;
  for (const IbSpace& candidate : ib_spaces) {
    if ((address.service_id & mask) != (candidate.service_id & mask)) continue;
    if (space == PortSpace::ib || space == candidate.space) return candidate.space;
  }
  return PortSpace::none;
}

}  // namespace

// -- binding

Result<u32> RdmaCm::bind_ip(const Command& command, const rdma_ucm_bind_ip& request) {
  auto id = find(command, request.id);
  const auto address = parse_address(storage_bytes(request.addr));
  if (!address) return fail(EINVAL);
  if (!id) return fail(id.error());
  auto done = bind(**id, *address);
  return done ? Result<u32>(0U) : fail(done.error());
}

Result<u32> RdmaCm::bind_address(const Command& command, const rdma_ucm_bind& request) {
  auto address = sized_address(storage_bytes(request.addr), request.addr_size);
  if (!address || request.reserved) return fail(EINVAL);
  auto id = find(command, request.id);
  if (!id) return fail(id.error());
  auto done = bind(**id, *address);
  return done ? Result<u32>(0U) : fail(done.error());
}

Result<void> RdmaCm::bind(Id& id, const SocketAddress& address) {
  if (id.state != IdState::idle) return fail(EINVAL);
  if (address.is_link_local() && address.scope == 0) return fail(EINVAL);
  id.source = address;
  if (!id.only_family_set) id.only_family = address.family == AF_INET;
  Result<void> done = address.is_any() ? Result<void>{} : attach_to_source(id);
  if (done) done = take_port(id);
  if (!done) {
    id.source = {};
    id.port = 0;
    return done;
  }
  id.state = IdState::address_bound;
  return {};
}

// Binding to an address is binding to the port that has it.
Result<void> RdmaCm::attach_to_source(Id& id) {
  if (!id.source.is_ib()) {
    const BookedAddress* own = book_.find_on_host(id.host, id.source.ip);
    if (own) {
      attach(id, own->port, own->pkey);
      return {};
    }
    return fail(EADDRNOTAVAIL);
  }
  for (u32 index = 1; index < subnets_.size(); ++index) {
    if (host_of(index) != id.host || on_ethernet(index)) continue;
    const ipc::Port& record = port(index);
    for (u32 i = 0; i < std::min<u32>(record.gid_count, ipc::max_gids_per_port); ++i) {
      if (gid_bytes(record.gids[i]) != id.source.gid) continue;
      attach(id, index, id.source.pkey);
      id.sgid = id.source.gid;
      return {};
    }
  }
  return fail(ENODEV);
}

Result<void> RdmaCm::take_port(Id& id) {
  const PortSpace space = id.source.is_ib() ? ib_space_of(id.space, id.source) : id.space;
  if (space == PortSpace::none) return fail(EPROTONOSUPPORT);
  auto port = host(id.host).spaces.bind(space, {id.handle, id.source, id.reuse, id.only_family, false});
  if (!port) return fail(port.error());
  id.bound_space = space;
  id.bound_port = *port;
  id.source.set_port(*port);
  if (id.source.is_ib() && id.space != PortSpace::none) {
    id.source.service_id = static_cast<u64>(space) << 16 | *port;
    id.source.service_mask = ib_space_mask | 0xffff;
  }
  return {};
}

void RdmaCm::attach(Id& id, u32 index, u16 pkey) {
  const ipc::Port& record = port(index);
  id.port = index;
  id.pkey = pkey ? pkey : record.pkeys[0];
  id.sgid = gid_bytes(record.gids[0]);
  if (!id.source.is_ib() && !id.source.is_any()) id.sgid = gid_of(index, id.source.ip);
}

// On Ethernet an address is a GID, if it stands in the port's table; those that don't are reached by one that does.
GidBytes RdmaCm::gid_of(u32 index, const Ip& ip) const {
  const ipc::Port& record = port(index);
  GidBytes found = gid_bytes(record.gids[0]);
  if (!on_ethernet(index)) return found;
  for (u32 i = 0; i < std::min<u32>(record.gid_count, ipc::max_gids_per_port); ++i) {
    const GidBytes gid = gid_bytes(record.gids[i]);
    if (gid == ip) return gid;
    if (is_ipv4(gid) && is_ipv4(ip)) found = gid;
  }
  return found;
}

// -- resolving addresses

Result<u32> RdmaCm::resolve_ip(const Command& command, const rdma_ucm_resolve_ip& request) {
  auto id = find(command, request.id);
  const auto source = parse_address(storage_bytes(request.src_addr));
  const auto destination = parse_address(storage_bytes(request.dst_addr));
  if (!destination) return fail(EINVAL);
  if (!id) return fail(id.error());
  auto done = resolve(**id, source ? &*source : nullptr, *destination, request.timeout_ms, command.now);
  return done ? Result<u32>(0U) : fail(done.error());
}

Result<u32> RdmaCm::resolve_address(const Command& command, const rdma_ucm_resolve_addr& request) {
  Result<SocketAddress> source = SocketAddress{};
  if (request.src_size) source = sized_address(storage_bytes(request.src_addr), request.src_size);
  auto destination = sized_address(storage_bytes(request.dst_addr), request.dst_size);
  if (request.reserved || !source || !destination) return fail(EINVAL);
  auto id = find(command, request.id);
  if (!id) return fail(id.error());
  auto done = resolve(**id, source->family ? &*source : nullptr, *destination, request.timeout_ms, command.now);
  return done ? Result<u32>(0U) : fail(done.error());
}

Result<void> RdmaCm::resolve(Id& id, const SocketAddress* source, const SocketAddress& destination, u32 timeout_ms,
                             u64 now) {
  if (id.state == IdState::idle) {
    SocketAddress from = source ? *source : any_address(destination.family);
    if (!source && destination.is_ib()) {
      from.pkey = destination.pkey;
      from.service_mask = 0;
    }
    if (!source && destination.is_link_local()) from.scope = destination.scope;
    if (auto bound = bind(id, from); !bound) return bound;
  }
  if (id.state != IdState::address_bound || id.source.family != destination.family) return fail(EINVAL);
  id.destination = destination;
  id.state = IdState::address_query;
  return look_up(id, timeout_ms, now);
}

// That there is no way is known at once. Else an event tells how it went; an address that nobody answers for takes its
// time.
Result<void> RdmaCm::look_up(Id& id, u32 timeout_ms, u64 now) {
  const auto found = id.destination.is_any()  ? look_up_any(id)
                     : id.destination.is_ib() ? look_up_gid(id)
                                              : look_up_ip(id);
  if (!found && to_int(found.error()) == ETIMEDOUT) {
    set_timer(id, now + std::max<u64>(timeout_ms, 1) * ns::millisecond);
    return {};
  }
  id.state = IdState::address_bound;
  if (!found) return found;
  if (on_ethernet(id.port) && id.space == PortSpace::ipoib) {
    tell(id, Event::address_error, -EINVAL);
    return {};
  }
  id.state = IdState::address_resolved;
  tell(id, Event::address_resolved);
  return {};
}

// To the host itself, by whichever port works.
Result<void> RdmaCm::look_up_any(Id& id) {
  if (id.port == 0) {
    const u32 index = active_port(id.host);
    if (index == 0) return fail(ENODEV);
    attach(id, index, 0);
    const u16 bound = id.source.port;
    if (!id.source.is_ib()) {
      if (const BookedAddress* own = book_.first_of_port(index, id.source.family == AF_INET)) id.source.ip = own->ip;
      id.sgid = gid_of(index, id.source.ip);
    } else {
      id.source.gid = id.sgid;
    }
    id.source.set_port(bound);
  }
  const u16 wanted = id.destination.port;
  const u64 service = id.destination.service_id;
  id.destination = id.source;
  id.destination.set_port(wanted);
  if (id.destination.is_ib()) id.destination.service_id = service;
  id.dgid = id.sgid;
  return {};
}

Result<void> RdmaCm::look_up_ip(Id& id) {
  const Ip& wanted = id.destination.ip;
  if (id.destination.is_multicast()) return look_up_group(id);
  const BookedAddress* from =
      id.source.is_any() ? book_.source_for(id.host, wanted) : book_.find_on_host(id.host, id.source.ip);
  if (!from) return fail(ENETUNREACH);
  if (id.source.is_any()) {
    id.source.ip = from->ip;
    attach(id, from->port, from->pkey);
  }
  const BookedAddress* to = book_.find(wanted);
  if (!to || !reaches(id, *to)) return fail(ETIMEDOUT);
  id.dgid = gid_of(to->port, wanted);
  return {};
}

// A group is reached by the port that the program bound to, else by whichever works.
Result<void> RdmaCm::look_up_group(Id& id) {
  const u32 index = id.port ? id.port : active_port(id.host);
  if (index == 0) return fail(ENETUNREACH);
  if (id.source.is_any()) {
    const BookedAddress* own = book_.first_of_port(index, id.source.family == AF_INET);
    if (!own) return fail(ENETUNREACH);
    id.source.ip = own->ip;
    attach(id, index, own->pkey);
  }
  id.dgid = group_gid(id, id.destination);
  return {};
}

// AF_IB names the port itself: what is asked is only by which of its own, members of the same partition, the host gets
// there.
Result<void> RdmaCm::look_up_gid(Id& id) {
  if (id.port == 0) {
    for (u32 index = 1; index < subnets_.size() && id.port == 0; ++index) {
      if (host_of(index) != id.host || on_ethernet(index)) continue;
      if (port(index).state != ipc::PortState::active || !is_member(index, id.destination.pkey)) continue;
      if (std::equal(id.destination.gid.begin(), id.destination.gid.begin() + 8, port(index).gids[0].raw))
        attach(id, index, id.destination.pkey);
    }
    if (id.port == 0) return fail(ENODEV);
    id.source.gid = id.sgid;
    id.source.pkey = id.pkey;
  }
  id.dgid = id.destination.gid;
  if (id.destination.pkey) id.pkey = id.destination.pkey;
  return {};
}

// As the kernel finds a P_Key in a port's table: whether as full or as limited member. 0 is none in particular.
bool RdmaCm::is_member(u32 index, u16 pkey) const {
  const ipc::Port& record = port(index);
  const u16* end = record.pkeys + std::min<u32>(record.pkey_count, ipc::max_pkeys_per_port);
  return pkey == 0 || std::any_of(record.pkeys, end, [pkey](u16 own) { return ((own ^ pkey) & 0x7fff) == 0; });
}

u32 RdmaCm::active_port(u32 host_index) const {
  for (u32 index = 1; index < subnets_.size(); ++index)
    if (host_of(index) == host_index && port(index).state == ipc::PortState::active) return index;
  return 0;
}

// Whether the two interfaces hear each other's questions: of a partition's limited members neither hears another.
bool RdmaCm::reaches(const Id& from, const BookedAddress& to) const {
  const ipc::Port& near = port(from.port);
  const ipc::Port& far = port(to.port);
  if (subnets_[from.port] != subnets_[to.port]) return false;
  if (near.state != ipc::PortState::active || far.state != ipc::PortState::active) return false;
  if (on_ethernet(from.port) || from.port == to.port) return true;
  return wire::keys_match(from.pkey, to.pkey ? to.pkey : far.pkeys[0]);
}

u8 RdmaCm::gid_index(u32 index, const GidBytes& gid) const {
  const ipc::Port& record = port(index);
  u8 found = 0;
  // The last one: of a GID that stands there as RoCE v1 and v2 that is v2.
  for (u32 i = 0; i < std::min<u32>(record.gid_count, ipc::max_gids_per_port); ++i)
    if (gid_bytes(record.gids[i]) == gid) found = static_cast<u8>(i);
  return found;
}

u64 RdmaCm::service_id(const Id& id, const SocketAddress& address) const {
  return address.is_ib() ? address.service_id : static_cast<u64>(id.space) << 16 | address.port;
}

// -- resolving routes

Result<u32> RdmaCm::resolve_route(const Command& command, const rdma_ucm_resolve_route& request) {
  auto id = find_with_device(command, request.id);
  if (!id) return fail(id.error());
  if ((*id)->state != IdState::address_resolved) return fail(EINVAL);
  (*id)->state = IdState::route_query;
  if (on_ethernet((*id)->port)) {
    make_ethernet_path(**id);
    return 0U;
  }
  if (auto asked = ask_for_path(**id, request.timeout_ms, command.now); !asked) {
    (*id)->state = IdState::address_resolved;
    return fail(asked.error());
  }
  return 0U;
}

// Nobody manages an Ethernet: what there is to know follows from the GIDs and the port.
void RdmaCm::make_ethernet_path(Id& id) {
  const ipc::Port& record = port(id.port);
  cm::Path path;
  path.ethernet = true;
  path.sgid = id.sgid;
  path.dgid = id.dgid;
  path.mtu = record.active_mtu;
  const fabric::PortStatus status = read_status(record);
  path.rate = static_cast<u8>(fabric::path_rate(status.speed, status.width).value_or(fabric::PathRate{}));
  path.packet_life = ethernet_packet_life;
  if (id.ack_timeout && *id.ack_timeout) path.packet_life = static_cast<u8>(*id.ack_timeout - 1);
  path.hop_limit = ethernet_hop_limit;
  path.traffic_class = id.tos;
  path.sl = static_cast<u8>(id.tos >> 5 & 7);
  id.paths = {path};
  id.state = IdState::route_resolved;
  tell(id, Event::route_resolved);
}

Result<void> RdmaCm::ask_for_path(Id& id, u32 timeout_ms, u64 now) {
  namespace field = sm::sa::path;
  using sm::sa::bit;
  cm::Path wanted;
  wanted.sgid = id.sgid;
  wanted.dgid = id.dgid;
  wanted.pkey = id.pkey;
  PathRecordBytes record = write_path(wanted);
  set(record, field::service_id, service_id(id, id.destination));
  SaClient::Question question;
  question.port = id.port;
  question.type = sm::sa::RecordType::path;
  question.timeout_ms = timeout_ms;
  question.mask = bit(field::has_dgid) | bit(field::has_sgid) | bit(field::has_count) | bit(field::has_pkey) |
                  bit(field::has_service_lsb) | bit(field::has_service_msb) | bit(11);  // 11: reversible
  if (id.source.family == AF_INET) {
    set(record, field::qos_class, id.tos);
    question.mask |= bit(field::has_qos_class);
  } else {
    set(record, field::traffic_class, id.tos);
    question.mask |= bit(field::has_class);
  }
  question.record.assign(record.begin(), record.end());
  const u32 handle = id.handle;
  auto asked = administration_.ask(question, now, [this, handle](int status, std::span<const u8> found) {
    Id* asker = find(handle);
    if (!asker || asker->state != IdState::route_query) return;
    asker->question = 0;
    asker->state = status ? IdState::address_resolved : IdState::route_resolved;
    if (!status) asker->paths = {read_path(found, false)};
    tell(*asker, status ? Event::route_error : Event::route_resolved, -status);
  });
  if (!asked) return fail(asked.error());
  if (id.state == IdState::route_query) id.question = *asked;  // else the answer came within the call
  return {};
}

}  // namespace softib::daemon
