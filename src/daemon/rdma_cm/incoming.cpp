// What the other ends of connections do, as events for the program.
#include <netinet/in.h>

#include <algorithm>
#include <cstring>

#include "daemon/rdma_cm/greeting.h"
#include "daemon/rdma_cm/host.h"

namespace softib::daemon {

namespace {

using cm::Happening;

constexpr u8 long_service_timeout = 24;  // a minute: programs may take their time

rdma_ucm_conn_param parameters_of(const cm::Event& event, u32 skip) {
  rdma_ucm_conn_param p{};
  const size_t size =
      std::min(event.private_data.size() - std::min<size_t>(skip, event.private_data.size()), sizeof p.private_data);
  std::copy_n(event.private_data.begin() + static_cast<std::ptrdiff_t>(event.private_data.size() - size), size,
              p.private_data);
  p.private_data_len = static_cast<u8>(size);
  p.responder_resources = event.responder_resources;
  p.initiator_depth = event.initiator_depth;
  p.flow_control = event.flow_control;
  p.retry_count = event.retry_count;
  p.rnr_retry_count = event.rnr_retry_count;
  p.srq = event.srq;
  p.qp_num = event.remote_qpn;
  return p;
}

rdma_ucm_ud_param datagram_parameters_of(const cm::Event& event, u32 skip) {
  rdma_ucm_ud_param p{};
  const rdma_ucm_conn_param same = parameters_of(event, skip);
  std::copy_n(same.private_data, sizeof p.private_data, p.private_data);
  p.private_data_len = same.private_data_len;
  return p;
}

bool listens_to(const SocketAddress& own, bool only_family, const std::optional<Greeting>& greeting) {
  if (own.is_any() && !only_family) return true;
  if (own.is_ib()) return true;
  if (!greeting || greeting->family != own.family) return false;
  return own.is_any() || own.ip == greeting->answerer;
}

}  // namespace

void RdmaCm::happened(Host& at, const cm::Event& event) {
  if (event.what == Happening::req_received || event.what == Happening::sidr_received) return request_came(at, event);
  auto known = at.id_of_connection.find(event.id);
  Id* id = known == at.id_of_connection.end() ? nullptr : find(known->second);
  if (id) connection_event(*id, event);
}

// -- requests

Id* RdmaCm::listener_for(Host& at, const cm::Event& event) {
  const auto greeting = read_greeting(event.private_data);
  for (const auto& [key, listening] : at.listening) {
    if (listening.connection != event.listener) continue;
    const auto space = static_cast<PortSpace>(event.service_id >> 16 & 0xffff);
    const auto number = static_cast<u16>(event.service_id);
    for (u32 handle : at.spaces.listeners(space, number)) {
      Id* id = find(handle);
      if (!id || !listens_to(id->source, id->only_family, greeting)) continue;
      if (id->is_datagram() != (event.what == Happening::sidr_received)) continue;
      if (id->port == 0 || id->port == event.port) return id;
    }
  }
  return nullptr;
}

void RdmaCm::request_came(Host& at, const cm::Event& event) {
  Id* listener = listener_for(at, event);
  if (!listener) return at.manager.destroy(event.id, now_);
  if (listener->backlog == 0) {
    // Nothing is said: when the request is repeated there may be room.
    if (event.what == Happening::req_received) at.manager.ignore(event.id);
    return at.manager.destroy(event.id, now_);
  }
  --listener->backlog;
  Id& id = *add_id(listener->file);
  id.space = listener->space;
  id.qp_type = listener->qp_type;
  if (event.what == Happening::req_received)
    id.qp_type = event.transport == cm::Transport::uc ? IdQpType::uc : IdQpType::rc;
  id.state = IdState::connect;
  id.tos = listener->tos;
  id.starting_psn = event.starting_psn;
  attach(id, event.port, event.path.pkey);
  id.sgid = event.path.sgid;
  id.dgid = event.path.dgid;
  id.source = id.destination = listener->source;
  const auto greeting = listener->source.is_ib() ? std::nullopt : read_greeting(event.private_data);
  if (greeting) {
    id.source.family = id.destination.family = greeting->family;
    id.source.ip = greeting->answerer;
    id.destination.ip = greeting->asker;
    id.destination.port = greeting->port;
  } else {
    id.source.gid = id.sgid;
    id.destination.gid = id.dgid;
    id.source.pkey = id.destination.pkey = id.pkey;
  }
  if (event.what == Happening::req_received) id.paths = {event.path};
  watch_connection(id, event.id);
  rdma_ucm_event_resp response{};
  response.event = static_cast<u32>(Event::connect_request);
  const u32 skip = greeting ? greeting_size : 0;
  if (id.is_datagram())
    response.param.ud = datagram_parameters_of(event, skip);
  else
    response.param.conn = parameters_of(event, skip);
  response.uid = listener->uid;
  response.id = id.handle;
  if (!id.is_datagram()) static_cast<void>(at.manager.ask_for_time(event.id, long_service_timeout));
  files_.at(listener->file).events.push_back({listener->handle, 0, id.handle, response});
  outside_.set_readable(listener->file, true);
}

// -- connections

void RdmaCm::connection_event(Id& id, const cm::Event& event) {
  const bool after = event.what == Happening::timewait_over;
  if (id.state != (after ? IdState::disconnect : IdState::connect)) return;
  switch (event.what) {
    case Happening::req_failed:
    case Happening::rep_failed:
    case Happening::sidr_failed:
      return tell(id, Event::unreachable, -ETIMEDOUT);
    case Happening::rep_received:
      return reply_came(id, event);
    case Happening::established:
      return tell(id, Event::established);
    case Happening::rejected:
      return tell_connected(id, Event::rejected, event, 0);
    case Happening::dreq_received:
    case Happening::drep_received:
    case Happening::dreq_failed:
      id.state = IdState::disconnect;
      return tell(id, Event::disconnected, event.what == Happening::dreq_failed ? -ETIMEDOUT : 0);
    case Happening::timewait_over:
      return tell(id, Event::timewait_exit);
    case Happening::sidr_answered:
      return service_answered(id, event);
    default:
      return;  // paths that are loaded: rdma_cm leaves them to nobody
  }
}

void RdmaCm::tell_connected(Id& id, Event what, const cm::Event& from, u32 skip) {
  if (id.uid == 0) return;
  rdma_ucm_event_resp response{};
  response.event = static_cast<u32>(what);
  response.status = from.status;
  response.param.conn = parameters_of(from, skip);
  queue(id, response);
}

void RdmaCm::reply_came(Id& id, const cm::Event& event) {
  static_cast<void>(manager(id).ask_for_time(id.connection, long_service_timeout));
  tell_connected(id, Event::connect_response, event, 0);
}

void RdmaCm::service_answered(Id& id, const cm::Event& event) {
  rdma_ucm_event_resp response{};
  response.param.ud = datagram_parameters_of(event, 0);
  response.event = static_cast<u32>(Event::established);
  if (event.status != static_cast<u16>(cm::SidrStatus::success) || !set_qkey(id, event.qkey)) {
    response.event = static_cast<u32>(Event::unreachable);
    response.status = event.status ? event.status : static_cast<u32>(-EINVAL);
  } else {
    fill_address(response.param.ud.ah_attr, id.paths.at(0), id.port);
    response.param.ud.qp_num = event.remote_qpn;
    response.param.ud.qkey = event.qkey;
  }
  queue(id, response);
}

}  // namespace softib::daemon
