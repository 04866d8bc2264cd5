// Multicast groups: joined at the subnet manager once for each port, however many ids there want them.
#include <netinet/in.h>

#include <algorithm>
#include <cstring>

#include "daemon/rdma_cm/answer.h"
#include "daemon/rdma_cm/host.h"

namespace softib::daemon {

namespace {

constexpr u8 full_join = static_cast<u8>(wire::JoinState::full);
constexpr u8 send_only_join = static_cast<u8>(wire::JoinState::send_only_full);
constexpr u32 join_timeout_ms = 3000;
constexpr u8 multicast_hop_limit = 1;

// As IP over InfiniBand maps IP groups (RFC 4391), with a signature of rdma_cm's own for datagram ids, so that its
// groups and those of IP don't meet.
GidBytes mapped_group(const SocketAddress& address, u16 pkey, bool own_signature) {
  constexpr u16 ipv4_signature = 0x401b, ipv6_signature = 0x601b, rdma_cm_low = 0x01;
  const bool ipv4 = address.family == AF_INET;
  GidBytes mgid{0xff, 0x12};  // transient, within the subnet
  u16 signature = ipv4 ? ipv4_signature : ipv6_signature;
  if (own_signature) signature = static_cast<u16>((signature & 0xff00) | rdma_cm_low);
  wire::set(mgid, {16, 16}, signature);
  wire::set(mgid, {32, 16}, pkey | 0x8000U);
  if (ipv4)
    wire::set(mgid, {96, 32}, ipv4_of(address.ip) & 0x0fff'ffff);
  else
    std::copy(address.ip.begin() + 6, address.ip.end(), mgid.begin() + 6);
  return mgid;
}

bool is_mgid_of_manager(const Ip& ip) { return ip[0] == 0xff && ip[1] == 0x10 && ip[2] == 0xa0 && ip[3] == 0x1b; }

}  // namespace

Result<u32> RdmaCm::join_ip(const Command& command, const rdma_ucm_join_ip_mcast& request) {
  const auto address = parse_address(storage_bytes(request.addr));
  if (!address) return fail(EINVAL);
  return start_join(command, request.uid, request.id, *address, full_join);
}

Result<u32> RdmaCm::join(const Command& command, const rdma_ucm_join_mcast& request) {
  const auto address = parse_address(storage_bytes(request.addr));
  if (!address || request.addr_size != size_of_family(address->family)) return fail(EINVAL);
  if (request.join_flags > RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER) return fail(EINVAL);
  const bool full = request.join_flags == RDMA_MC_JOIN_FLAG_FULLMEMBER;
  return start_join(command, request.uid, request.id, *address, full ? full_join : send_only_join);
}

Result<u32> RdmaCm::start_join(const Command& command, u64 uid, u32 handle, const SocketAddress& address,
                               u8 join_state) {
  auto found = find_with_device(command, handle);
  if (!found) return fail(found.error());
  Id& id = **found;
  if (id.state != IdState::address_bound && id.state != IdState::address_resolved) return fail(EINVAL);
  if (!id.is_datagram()) return fail(EINVAL);
  if (auto set = set_qkey(id, 0); !set) return fail(set.error());
  u32 number = last_multicast_ + 1;
  if (!free_groups_.empty()) number = *free_groups_.begin();
  Multicast& multicast = multicasts_[number];
  multicast = {};
  multicast.handle = number;
  multicast.uid = uid;
  multicast.id = handle;
  multicast.address = address;
  multicast.join_state = join_state;
  multicast.mgid = group_gid(id, address);
  auto started = on_ethernet(id.port) ? join_ethernet(id, multicast) : join_infiniband(id, multicast, command.now);
  if (!started) {
    multicasts_.erase(number);
    return fail(started.error());
  }
  free_groups_.erase(number);
  last_multicast_ = std::max(last_multicast_, number);
  id.multicasts.push_back(number);
  return answer(command.out, rdma_ucm_create_id_resp{number});
}

GidBytes RdmaCm::group_gid(const Id& id, const SocketAddress& address) const {
  if (address.is_any()) return {};  // the manager's choice
  if (address.is_ib()) return address.gid;
  if (on_ethernet(id.port)) return address.ip;
  if (address.family == AF_INET6 && is_mgid_of_manager(address.ip)) return address.ip;
  return mapped_group(address, id.pkey, id.space == PortSpace::udp);
}

// Nobody keeps groups on an Ethernet: whoever listens to the address is a member.
Result<void> RdmaCm::join_ethernet(Id& id, Multicast& multicast) {
  if (multicast.join_state == send_only_join) return fail(EOPNOTSUPP);
  if (multicast.address.is_any()) return fail(EINVAL);
  cm::Path path;
  path.ethernet = true;
  path.sgid = id.sgid;
  path.dgid = multicast.mgid;
  path.hop_limit = multicast_hop_limit;
  path.traffic_class = id.tos;
  path.rate = 0;
  multicast.joined = true;
  tell_joined(id, multicast, path, id.qkey);
  return {};
}

Result<void> RdmaCm::join_infiniband(Id& id, Multicast& multicast, u64 now) {
  namespace field = sm::sa::member;
  using sm::sa::bit;
  std::vector<u8> record(wire::sa::data_size);
  std::copy(multicast.mgid.begin(), multicast.mgid.end(), record.begin() + field::mgid_at);
  std::memcpy(record.data() + field::port_gid_at, port(id.port).gids[0].raw, sizeof(ipc::Gid));
  wire::set(record, field::qkey, id.qkey);
  wire::set(record, field::pkey, id.pkey);
  wire::set(record, field::join_state, multicast.join_state);
  SaClient::Question question;
  question.port = id.port;
  question.method = wire::Method::set;
  question.type = sm::sa::RecordType::multicast_member;
  question.timeout_ms = join_timeout_ms;
  question.mask = bit(field::has_mgid) | bit(field::has_port_gid) | bit(field::has_qkey) | bit(field::has_pkey) |
                  bit(field::has_join_state) | bit(field::has_sl) | bit(field::has_flow) | bit(field::has_class);
  question.record = std::move(record);
  const u32 handle = multicast.handle;
  auto asked = administration_.ask(
      question, now, [this, handle](int status, std::span<const u8> found) { joined(handle, status, found); });
  if (!asked) return fail(asked.error());
  multicast.question = *asked;
  return {};
}

void RdmaCm::joined(u32 handle, int status, std::span<const u8> record) {
  namespace field = sm::sa::member;
  auto found = multicasts_.find(handle);
  if (found == multicasts_.end()) return;
  Multicast& multicast = found->second;
  Id& id = ids_.at(multicast.id);
  if (status) {
    rdma_ucm_event_resp response{};
    response.event = static_cast<u32>(Event::multicast_error);
    response.status = static_cast<u32>(-status);
    response.uid = multicast.uid;
    response.id = handle;
    return queue(id, response, handle);
  }
  std::copy_n(record.begin() + field::mgid_at, multicast.mgid.size(), multicast.mgid.begin());
  multicast.joined = true;
  Group& group = groups_[{id.port, multicast.mgid}];
  ++group.members;
  group.join_state |= multicast.join_state;
  cm::Path path;
  path.sgid = id.sgid;
  path.dgid = multicast.mgid;
  path.slid = port(id.port).lid;
  path.dlid = static_cast<u16>(get(record, field::mlid));
  path.sl = static_cast<u8>(get(record, field::sl));
  path.rate = static_cast<u8>(get(record, field::rate));
  path.flow_label = static_cast<u32>(get(record, field::flow_label));
  path.traffic_class = static_cast<u8>(get(record, field::traffic_class));
  path.hop_limit = static_cast<u8>(get(record, field::hop_limit));
  tell_joined(id, multicast, path, static_cast<u32>(get(record, field::qkey)));
}

void RdmaCm::tell_joined(Id& id, Multicast& multicast, const cm::Path& path, u32 qkey) {
  rdma_ucm_event_resp response{};
  response.event = static_cast<u32>(Event::multicast_join);
  response.uid = multicast.uid;
  response.id = multicast.handle;
  cm::Path with_group = path;
  with_group.hop_limit = std::max<u8>(path.hop_limit, 2);  // group addresses are always global
  fill_address(response.param.ud.ah_attr, with_group, id.port);
  response.param.ud.ah_attr.grh.hop_limit = path.hop_limit;
  response.param.ud.qp_num = abi::multicast_qpn;
  response.param.ud.qkey = qkey;
  queue(id, response, multicast.handle);
}

// -- leaving

Result<u32> RdmaCm::leave(const Command& command, const rdma_ucm_destroy_id& request) {
  auto found = multicasts_.find(request.id);
  if (found == multicasts_.end()) return fail(ENOENT);
  const Id* id = find(found->second.id);
  if (!id || id->file != command.file) return fail(EINVAL);
  const u32 reported = found->second.events_reported;
  end_multicast(request.id, command.now);
  return answer(command.out, rdma_ucm_destroy_id_resp{reported});
}

void RdmaCm::end_multicast(u32 handle, u64 now) {
  auto found = multicasts_.find(handle);
  if (found == multicasts_.end()) return;
  const Multicast multicast = found->second;
  Id& id = ids_.at(multicast.id);
  administration_.cancel(multicast.question);
  File& file = files_.at(id.file);
  std::erase_if(file.events, [handle](const QueuedEvent& event) { return event.multicast == handle; });
  outside_.set_readable(id.file, !file.events.empty());
  std::erase(id.multicasts, handle);
  multicasts_.erase(found);
  free_groups_.insert(handle);
  if (multicast.joined && !on_ethernet(id.port)) leave_group(id.port, multicast, now);
}

void RdmaCm::leave_group(u32 index, const Multicast& multicast, u64 now) {
  namespace field = sm::sa::member;
  using sm::sa::bit;
  auto found = groups_.find({index, multicast.mgid});
  if (found == groups_.end() || --found->second.members > 0) return;
  const u8 states = found->second.join_state;
  groups_.erase(found);
  SaClient::Question question;
  question.port = index;
  question.method = wire::Method::remove;
  question.type = sm::sa::RecordType::multicast_member;
  question.timeout_ms = join_timeout_ms;
  question.mask = bit(field::has_mgid) | bit(field::has_port_gid) | bit(field::has_join_state);
  question.record.resize(wire::sa::data_size);
  std::copy(multicast.mgid.begin(), multicast.mgid.end(), question.record.begin() + field::mgid_at);
  std::memcpy(question.record.data() + field::port_gid_at, port(index).gids[0].raw, sizeof(ipc::Gid));
  wire::set(question.record, field::join_state, states);
  static_cast<void>(administration_.ask(question, now, {}));
}

}  // namespace softib::daemon
