// What this end says.
#include <algorithm>

#include "cm/manager.h"
#include "cm/time.h"

namespace softib::cm {

namespace {

namespace msg = wire::cm;

template <size_t Size>
void fill(std::array<u8, Size>& to, std::span<const u8> from) {
  std::copy_n(from.begin(), std::min(Size, from.size()), to.begin());
}

msg::PathFields fields_of(const Path& path) {
  msg::PathFields fields;
  fields.local_lid = path.slid;
  fields.remote_lid = path.dlid;
  fields.local_gid = path.sgid;
  fields.remote_gid = path.dgid;
  fields.flow_label = path.flow_label;
  fields.rate = path.rate;
  fields.traffic_class = path.traffic_class;
  fields.hop_limit = path.hop_limit;
  fields.sl = path.sl;
  fields.subnet_local = path.hop_limit <= 1;
  fields.ack_timeout = ack_timeout(local_ca_delay, path.packet_life);
  return fields;
}

wire::Packet packet_along(const Path& path, const wire::Mad& mad) {
  wire::Packet packet;
  packet.slid = path.slid;
  packet.dlid = path.dlid;
  packet.sl = path.sl;
  packet.pkey = path.pkey;
  packet.source_qp = 1;
  packet.destination_qp = 1;
  if (path.is_global())
    packet.global = wire::GlobalRoute{path.sgid, path.dgid, path.flow_label, path.hop_limit, path.traffic_class};
  packet.mad = mad;
  return packet;
}

}  // namespace

wire::Packet Manager::packet_to(const Connection& connection, const wire::Mad& mad) const {
  return packet_along(connection.path, mad);
}

template <typename Message>
void Manager::send(Connection& connection, const Message& message) {
  connection.last = packet_to(connection, msg::emit(message, connection.transaction));
  const wire::Packet packet = *connection.last;
  outside_.send(connection.port, packet);
}

template void Manager::send(Connection&, const msg::Mra&);

template <typename Message>
void Manager::send_repeatedly(Connection& connection, const Message& message, u64 interval, u64 now) {
  connection.interval = interval;
  connection.retries_left = connection.max_retries;
  start_timer(connection, now + interval);
  send(connection, message);
}

template <typename Message>
void Manager::answer(const wire::Packet& to, u32 port, const Message& message) {
  wire::Packet packet = to;
  wire::turn_round(packet);
  packet.mad = msg::emit(message, get(to.mad, wire::header::transaction));
  outside_.send(port, packet);
}
template void Manager::answer(const wire::Packet&, u32, const msg::Drep&);
template void Manager::answer(const wire::Packet&, u32, const msg::SidrRep&);

void Manager::refuse(u32 port, const wire::Packet& packet, msg::About about, RejectReason reason, u32 local_id,
                     u32 remote_id) {
  msg::Rej rej;
  rej.local_id = local_id;
  rej.remote_id = remote_id;
  rej.about = static_cast<u8>(about);
  rej.reason = static_cast<u16>(reason);
  answer(packet, port, rej);
}

// -- making a connection

Result<void> Manager::connect(u32 id, const ConnectParameters& p, u64 now) {
  Connection* c = find(id);
  if (!c || (c->state != State::idle && c->state != State::timewait)) return fail(EINVAL);
  msg::Req req;
  if (p.private_data.size() > req.private_data.size()) return fail(EINVAL);
  c->port = p.port;
  c->path = p.primary;
  c->alternate = p.alternate;
  c->service_id = p.service_id;
  c->transport = p.transport;
  c->local_qpn = p.qpn;
  c->send_psn = p.starting_psn;
  c->responder_resources = p.responder_resources;
  c->initiator_depth = p.initiator_depth;
  c->retry_count = p.retry_count;
  c->rnr_retry_count = p.rnr_retry_count;
  c->max_retries = p.max_retries;
  c->ack_timeout = ack_timeout(local_ca_delay, p.primary.packet_life);
  c->response_timeout = 2 * to_ns(p.primary.packet_life) + to_ns(p.response_timeout);
  req.local_id = id;
  req.service_id = p.service_id;
  req.local_ca_guid = outside_.ca_guid(p.port);
  req.local_qpn = p.qpn;
  req.responder_resources = p.responder_resources;
  req.initiator_depth = p.initiator_depth;
  req.remote_response_timeout = req.local_response_timeout = p.response_timeout;
  req.transport = static_cast<u8>(p.transport);
  req.flow_control = p.flow_control;
  req.starting_psn = p.starting_psn;
  req.retry_count = p.retry_count;
  req.pkey = p.primary.pkey;
  req.mtu = p.primary.mtu;
  req.rnr_retry_count = p.rnr_retry_count;
  req.max_cm_retries = p.max_retries;
  req.srq = p.srq;
  req.primary = fields_of(p.primary);
  if (p.alternate) req.alternate = fields_of(*p.alternate);
  fill(req.private_data, p.private_data);
  c->state = State::req_sent;
  send_repeatedly(*c, req, c->response_timeout, now);
  return {};
}

Result<void> Manager::accept(u32 id, const AcceptParameters& p, u64 now) {
  Connection* c = find(id);
  msg::Rep rep;
  if (!c || c->state != State::req_received || p.private_data.size() > rep.private_data.size()) return fail(EINVAL);
  c->local_qpn = p.qpn;
  c->send_psn = p.starting_psn;
  c->responder_resources = p.responder_resources;
  c->initiator_depth = p.initiator_depth;
  rep.local_id = id;
  rep.remote_id = c->remote_id;
  rep.local_qpn = p.qpn;
  rep.starting_psn = p.starting_psn;
  rep.responder_resources = p.responder_resources;
  rep.initiator_depth = p.initiator_depth;
  rep.target_ack_delay = local_ca_delay;
  rep.flow_control = p.flow_control;
  rep.rnr_retry_count = p.rnr_retry_count;
  rep.srq = p.srq;
  rep.local_ca_guid = outside_.ca_guid(c->port);
  fill(rep.private_data, p.private_data);
  c->delay = 0;
  c->state = State::rep_sent;
  send_repeatedly(*c, rep, c->response_timeout, now);
  return {};
}

Result<void> Manager::confirm(u32 id, u64) {
  Connection* c = find(id);
  if (!c || c->state != State::rep_received) return fail(EINVAL);
  c->delay = 0;
  c->state = State::established;
  send(*c, msg::Rtu{id, c->remote_id, {}});
  return {};
}

Result<void> Manager::ask_for_time(u32 id, u8 service_timeout) {
  Connection* c = find(id);
  if (!c || (c->state != State::req_received && c->state != State::rep_received)) return fail(EINVAL);
  c->delay = service_timeout;
  return {};
}

Result<void> Manager::establish(u32 id, u64) {
  Connection* c = find(id);
  if (!c) return fail(EINVAL);
  if (c->state == State::established) return fail(EISCONN);
  if (c->state != State::rep_sent && c->state != State::mra_rep_received) return fail(EINVAL);
  stop_timer(*c);
  c->state = State::established;
  tell(*c, Happening::established);
  return {};
}

// -- ending it

void Manager::send_reject(Connection& c, RejectReason reason, std::span<const u8> private_data) {
  msg::Rej rej;
  rej.local_id = c.id;
  rej.remote_id = c.remote_id;
  rej.reason = static_cast<u16>(reason);
  const bool answers_req = c.state == State::req_received;
  const bool answers_rep = c.state == State::rep_received;
  rej.about = static_cast<u8>(answers_req ? msg::About::req : answers_rep ? msg::About::rep : msg::About::other);
  if (reason == RejectReason::timeout) {  // by this, and not by its id, the other end knows the connection
    wire::set(rej.information, {0, 64}, outside_.ca_guid(c.port));
    rej.information_length = 8;
  }
  fill(rej.private_data, private_data);
  send(c, rej);
}

Result<void> Manager::reject(u32 id, RejectReason reason, std::span<const u8> private_data, u64 now) {
  Connection* c = find(id);
  if (!c || private_data.size() > sizeof(msg::Rej::private_data)) return fail(EINVAL);
  switch (c->state) {
    case State::req_sent:
    case State::mra_req_received:
    case State::req_received:
      send_reject(*c, reason, private_data);
      reset(*c);
      return {};
    case State::rep_sent:
    case State::mra_rep_received:
    case State::rep_received:
      send_reject(*c, reason, private_data);
      enter_timewait(*c, now);
      return {};
    default:
      return fail(EINVAL);
  }
}

Result<void> Manager::disconnect(u32 id, u64 now) {
  Connection* c = find(id);
  if (!c || c->state != State::established) return fail(EINVAL);
  c->state = State::dreq_sent;
  send_repeatedly(*c, msg::Dreq{id, c->remote_id, c->remote_qpn, {}}, c->response_timeout, now);
  return {};
}

void Manager::send_drep(const Connection& c) {
  const wire::Packet packet = packet_to(c, msg::emit(msg::Drep{c.id, c.remote_id, {}}, c.transaction));
  outside_.send(c.port, packet);
}

Result<void> Manager::part(u32 id, u64 now) {
  Connection* c = find(id);
  if (!c || c->state != State::dreq_received) return fail(EINVAL);
  enter_timewait(*c, now);
  send_drep(*c);
  return {};
}

// -- another path

Result<void> Manager::load_path(u32 id, const Path& alternate, u64 now) {
  Connection* c = find(id);
  if (!c || c->state != State::established || c->lap_sent) return fail(EINVAL);
  msg::Lap lap;
  lap.local_id = id;
  lap.remote_id = c->remote_id;
  lap.remote_qpn = c->remote_qpn;
  lap.remote_response_timeout = 20;
  lap.alternate = fields_of(alternate);
  c->alternate = alternate;
  c->lap_sent = true;
  send_repeatedly(*c, lap, c->response_timeout, now);
  return {};
}

Result<void> Manager::answer_path(u32 id, AprStatus status) {
  Connection* c = find(id);
  if (!c || c->state != State::established || !c->lap_received) return fail(EINVAL);
  c->lap_received = false;
  msg::Apr apr;
  apr.local_id = id;
  apr.remote_id = c->remote_id;
  apr.status = static_cast<u8>(status);
  send(*c, apr);
  return {};
}

// -- datagrams: the other end's queue pair, by service id

Result<void> Manager::ask_service(u32 id, const ServiceQuestion& question, u64 now) {
  Connection* c = find(id);
  msg::SidrReq req;
  if (!c || c->state != State::idle || question.private_data.size() > req.private_data.size()) return fail(EINVAL);
  c->port = question.port;
  c->path = question.path;
  c->service_id = question.service_id;
  c->max_retries = question.max_retries;
  req.request_id = id;
  req.pkey = question.path.pkey;
  req.service_id = question.service_id;
  fill(req.private_data, question.private_data);
  c->state = State::sidr_req_sent;
  send_repeatedly(*c, req, question.timeout_ns, now);
  return {};
}

Result<void> Manager::answer_service(u32 id, const ServiceAnswer& given) {
  Connection* c = find(id);
  msg::SidrRep rep;
  if (!c || c->state != State::sidr_req_received || given.private_data.size() > rep.private_data.size())
    return fail(EINVAL);
  rep.request_id = c->remote_id;
  rep.status = static_cast<u8>(given.status);
  rep.qpn = given.status == SidrStatus::success ? given.qpn : 0;
  rep.service_id = c->service_id;
  rep.qkey = given.status == SidrStatus::success ? given.qkey : 0;
  fill(rep.private_data, given.private_data);
  c->state = State::idle;
  forget(*c);
  answer(c->asked, c->port, rep);
  return {};
}

}  // namespace softib::cm
