// Connections as the program drives them.
#include <infiniband/verbs.h>

#include <algorithm>

#include "base/durations.h"
#include "daemon/rdma_cm/greeting.h"
#include "daemon/rdma_cm/host.h"

namespace softib::daemon {

namespace {

constexpr u8 response_timeout = 20;  // 4.096 us * 2^20: four seconds
constexpr u64 service_timeout_ns = 4096 * ns::millisecond;
constexpr u8 longest_retry = 7;
constexpr u32 most_backlog = 1024;  // net.rdma_ucm.max_backlog

std::span<const u8> data_of(const rdma_ucm_conn_param& parameters) {
  return {parameters.private_data, std::min<size_t>(parameters.private_data_len, sizeof parameters.private_data)};
}

Result<u32> as_size(const Result<void>& done) { return done ? Result<u32>(0U) : fail(done.error()); }

}  // namespace

// -- the side that asks

Result<u32> RdmaCm::connect(const Command& command, const rdma_ucm_connect& request) {
  if (!request.conn_param.valid) return fail(EINVAL);
  auto found = find_with_device(command, request.id);
  if (!found) return fail(found.error());
  Id& id = **found;
  if (id.state != IdState::route_resolved) return fail(EINVAL);
  id.state = IdState::connect;
  id.qpn = request.conn_param.qp_num;
  id.srq = request.conn_param.srq;
  Result<void> done = fail(ENOENT);  // by a path that the program gave, in a partition that is not the port's
  if (is_member(id.port, id.paths.at(0).pkey))
    done = id.is_datagram() ? ask_service(id, request.conn_param, command.now)
                            : connect_queue_pair(id, request.conn_param, command.now);
  if (!done) id.state = IdState::route_resolved;
  return as_size(done);
}

std::vector<u8> RdmaCm::greeting(const Id& id, const rdma_ucm_conn_param& parameters) const {
  std::vector<u8> data;
  if (!id.source.is_ib()) data = write_greeting(id.source, id.destination);
  const auto own = data_of(parameters);
  data.insert(data.end(), own.begin(), own.end());
  return data;
}

Result<void> RdmaCm::connect_queue_pair(Id& id, const rdma_ucm_conn_param& parameters, u64 now) {
  cm::ConnectParameters p;
  p.port = id.port;
  p.primary = id.paths.at(0);
  p.service_id = service_id(id, id.destination);
  p.transport = id.qp_type == IdQpType::uc ? cm::Transport::uc : cm::Transport::rc;
  p.qpn = id.qpn;
  p.starting_psn = id.starting_psn;
  p.responder_resources = parameters.responder_resources;
  p.initiator_depth = parameters.initiator_depth;
  p.flow_control = parameters.flow_control;
  p.retry_count = std::min(parameters.retry_count, longest_retry);
  p.rnr_retry_count = std::min(parameters.rnr_retry_count, longest_retry);
  p.srq = id.srq != 0;
  p.response_timeout = response_timeout;
  p.private_data = greeting(id, parameters);
  if (id.ack_timeout && *id.ack_timeout) p.primary.packet_life = static_cast<u8>(*id.ack_timeout - 1);
  if (p.private_data.size() > sizeof(wire::cm::Req::private_data)) return fail(EINVAL);
  watch_connection(id, manager(id).create());
  return manager(id).connect(id.connection, p, now);
}

Result<void> RdmaCm::ask_service(Id& id, const rdma_ucm_conn_param& parameters, u64 now) {
  cm::ServiceQuestion question;
  question.port = id.port;
  question.path = id.paths.at(0);
  question.service_id = service_id(id, id.destination);
  question.timeout_ns = service_timeout_ns;
  question.private_data = greeting(id, parameters);
  if (question.private_data.size() > sizeof(wire::cm::SidrReq::private_data)) return fail(EINVAL);
  watch_connection(id, manager(id).create());
  return manager(id).ask_service(id.connection, question, now);
}

// -- the side that waits

Result<u32> RdmaCm::listen(const Command& command, const rdma_ucm_listen& request) {
  auto found = find(command, request.id);
  if (!found) return fail(found.error());
  Id& id = **found;
  id.backlog = request.backlog > 0 && request.backlog < most_backlog ? request.backlog : most_backlog;
  if (id.state == IdState::idle)
    if (auto bound = bind(id, any_address(AF_INET)); !bound) return fail(bound.error());
  if (id.state != IdState::address_bound) return fail(EINVAL);
  return as_size(start_listening(id));
}

Result<void> RdmaCm::start_listening(Id& id) {
  Host& at = host(id.host);
  if (auto alone = at.spaces.listen(id.bound_space, id.bound_port, id.handle); !alone) return alone;
  id.listens_for = service_id(id, id.source);
  id.listen_mask = id.source.is_ib() ? id.source.service_mask : ~0ULL;
  auto [place, first] = at.listening.try_emplace({id.listens_for, id.listen_mask}, Host::Listening{0, 0});
  if (first) {
    place->second.connection = at.manager.create();
    if (auto done = at.manager.listen(place->second.connection, id.listens_for, id.listen_mask); !done) {
      at.manager.destroy(place->second.connection, now_);
      at.listening.erase(place);
      return done;
    }
  }
  ++place->second.users;
  id.state = IdState::listen;
  return {};
}

void RdmaCm::stop_listening(Id& id, u64 now) {
  Host& at = host(id.host);
  auto found = at.listening.find({id.listens_for, id.listen_mask});
  if (found == at.listening.end() || --found->second.users > 0) return;
  at.manager.destroy(found->second.connection, now);
  at.listening.erase(found);
}

Result<u32> RdmaCm::accept(const Command& command, const rdma_ucm_accept& request) {
  auto found = find_with_device(command, request.id);
  if (!found) return fail(found.error());
  Id& id = **found;
  const rdma_ucm_conn_param& p = request.conn_param;
  if (id.state != IdState::connect || !id.connection) return fail(EINVAL);
  const u64 uid = id.uid;
  if (p.valid) {
    id.uid = request.uid;
    id.qpn = p.qp_num;
    id.srq = p.srq;
  }
  Result<void> done;
  if (id.is_datagram()) {
    done = accept_datagram(id, p.valid ? &p : nullptr);
  } else if (!p.valid) {
    done = manager(id).confirm(id.connection, command.now);
  } else {
    const auto data = data_of(p);
    done = manager(id).accept(id.connection,
                              {.qpn = id.qpn,
                               .starting_psn = id.starting_psn,
                               .responder_resources = p.responder_resources,
                               .initiator_depth = p.initiator_depth,
                               .flow_control = p.flow_control,
                               .rnr_retry_count = std::min(p.rnr_retry_count, longest_retry),
                               .srq = static_cast<u8>(p.srq != 0),
                               .private_data = {data.begin(), data.end()}},
                              command.now);
  }
  if (done) return 0U;
  id.uid = uid;
  static_cast<void>(refuse(id, cm::RejectReason::consumer_defined, {}, command.now));
  return fail(done.error());
}

Result<void> RdmaCm::set_qkey(Id& id, u32 qkey) {
  if (id.qkey) return qkey && id.qkey != qkey ? fail(EINVAL) : Result<void>{};
  id.qkey = qkey ? qkey : abi::rdma_udp_qkey;
  return {};
}

Result<void> RdmaCm::accept_datagram(Id& id, const rdma_ucm_conn_param* p) {
  cm::ServiceAnswer answer;
  if (!p) {
    answer.status = cm::SidrStatus::success;
    return manager(id).answer_service(id.connection, answer);
  }
  // A Q_Key of the program's own is only for AF_IB.
  if (auto set = set_qkey(id, id.source.is_ib() ? p->qkey : 0); !set) return set;
  const auto data = data_of(*p);
  answer.qpn = id.qpn;
  answer.qkey = id.qkey;
  answer.private_data.assign(data.begin(), data.end());
  return manager(id).answer_service(id.connection, answer);
}

Result<u32> RdmaCm::reject(const Command& command, const rdma_ucm_reject& request) {
  constexpr u8 vendor_option_not_supported = 35;
  const auto consumer = static_cast<u8>(cm::RejectReason::consumer_defined);
  const u8 reason = request.reason ? request.reason : consumer;
  if (reason != consumer && reason != vendor_option_not_supported) return fail(EINVAL);
  auto found = find_with_device(command, request.id);
  if (!found) return fail(found.error());
  Id& id = **found;
  if (!id.connection) return fail(EINVAL);
  const std::span<const u8> data(request.private_data,
                                 std::min<size_t>(request.private_data_len, sizeof request.private_data));
  return as_size(refuse(id, static_cast<cm::RejectReason>(reason), data, command.now));
}

Result<void> RdmaCm::refuse(const Id& id, cm::RejectReason reason, std::span<const u8> data, u64 now) {
  if (!id.is_datagram()) return manager(id).reject(id.connection, reason, data, now);
  return manager(id).answer_service(
      id.connection,
      {.status = cm::SidrStatus::reject, .qpn = 0, .qkey = 0, .private_data = {data.begin(), data.end()}});
}

// Begins the end of a connection, or answers the other's.
Result<u32> RdmaCm::disconnect(const Command& command, const rdma_ucm_disconnect& request) {
  auto found = find_with_device(command, request.id);
  if (!found) return fail(found.error());
  Id& id = **found;
  if (!id.connection) return fail(EINVAL);
  if (!manager(id).disconnect(id.connection, command.now))
    static_cast<void>(manager(id).part(id.connection, command.now));
  return 0U;
}

Result<u32> RdmaCm::notify(const Command& command, const rdma_ucm_notify& request) {
  auto found = find_with_device(command, request.id);
  if (!found) return fail(found.error());
  if (!(*found)->connection || request.event != IBV_EVENT_COMM_EST) return fail(EINVAL);
  return as_size(manager(**found).establish((*found)->connection, command.now));
}

}  // namespace softib::daemon
