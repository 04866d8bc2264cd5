// What the other end says.
#include <algorithm>

#include "cm/manager.h"
#include "cm/time.h"

namespace softib::cm {

namespace {

namespace msg = wire::cm;
using msg::About;

// The other end's path, seen from here.
Path turned(const msg::PathFields& fields, u16 pkey, u8 mtu, bool ethernet) {
  Path path;
  path.ethernet = ethernet;
  path.sgid = fields.remote_gid;
  path.dgid = fields.local_gid;
  path.slid = fields.remote_lid;
  path.dlid = fields.local_lid;
  path.pkey = pkey;
  path.sl = fields.sl;
  path.mtu = mtu;
  path.rate = fields.rate;
  path.packet_life = static_cast<u8>(fields.ack_timeout - (fields.ack_timeout > 0 ? 1 : 0));
  path.flow_label = fields.flow_label;
  path.hop_limit = fields.subnet_local && !ethernet ? u8{0} : fields.hop_limit;
  path.traffic_class = fields.traffic_class;
  return path;
}

bool is_set(const msg::PathFields& fields) { return fields.remote_gid != GidBytes{} || fields.remote_lid != 0; }

template <size_t Size>
std::vector<u8> bytes_of(const std::array<u8, Size>& data) {
  return {data.begin(), data.end()};
}

}  // namespace

void Manager::received(u32 port, const wire::Packet& packet, bool ethernet, u64 now) {
  if (!msg::is_message(packet.mad)) return;
  const auto take = [&]<typename Message>(const Message*) {
    got(port, packet, msg::parse<Message>(packet.mad), ethernet, now);
  };
  switch (msg::attribute_of(packet.mad)) {
    case msg::Attribute::req:
      return take(static_cast<const msg::Req*>(nullptr));
    case msg::Attribute::mra:
      return take(static_cast<const msg::Mra*>(nullptr));
    case msg::Attribute::rej:
      return take(static_cast<const msg::Rej*>(nullptr));
    case msg::Attribute::rep:
      return take(static_cast<const msg::Rep*>(nullptr));
    case msg::Attribute::rtu:
      return take(static_cast<const msg::Rtu*>(nullptr));
    case msg::Attribute::dreq:
      return take(static_cast<const msg::Dreq*>(nullptr));
    case msg::Attribute::drep:
      return take(static_cast<const msg::Drep*>(nullptr));
    case msg::Attribute::sidr_req:
      return take(static_cast<const msg::SidrReq*>(nullptr));
    case msg::Attribute::sidr_rep:
      return take(static_cast<const msg::SidrRep*>(nullptr));
    case msg::Attribute::lap:
      return take(static_cast<const msg::Lap*>(nullptr));
    case msg::Attribute::apr:
      return take(static_cast<const msg::Apr*>(nullptr));
  }
}

// -- REQ

void Manager::got(u32 port, const wire::Packet& packet, const msg::Req& req, bool ethernet, u64 now) {
  if (is_repeated(port, packet, req) || is_stale(port, packet, req, now)) return;
  const Connection* listener = listener_of(req.service_id);
  if (!listener) return refuse(port, packet, About::req, RejectReason::invalid_service_id, 0, req.local_id);
  const u32 listener_id = listener->id;
  Connection& c = add();
  c.port = port;
  c.transaction = get(packet.mad, wire::header::transaction);
  take_request(c, req, ethernet);
  remember(c, RemoteId{req.local_ca_guid, req.local_id}, RemoteQp{req.local_ca_guid, req.local_qpn});
  Event event;
  event.what = Happening::req_received;
  event.id = c.id;
  event.listener = listener_id;
  event.port = port;
  event.service_id = req.service_id;
  event.path = c.path;
  event.alternate = c.alternate;
  event.remote_qpn = req.local_qpn;
  event.starting_psn = req.starting_psn;
  event.qkey = req.local_qkey;
  event.transport = c.transport;
  event.responder_resources = req.initiator_depth;
  event.initiator_depth = req.responder_resources;
  event.flow_control = req.flow_control;
  event.retry_count = req.retry_count;
  event.rnr_retry_count = req.rnr_retry_count;
  event.srq = req.srq;
  event.private_data = bytes_of(req.private_data);
  outside_.happened(event);
}

void Manager::take_request(Connection& c, const msg::Req& req, bool ethernet) {
  c.state = State::req_received;
  c.path = turned(req.primary, req.pkey, req.mtu, ethernet);
  if (is_set(req.alternate)) c.alternate = turned(req.alternate, req.pkey, req.mtu, ethernet);
  c.remote_id = req.local_id;
  c.remote_guid = req.local_ca_guid;
  c.remote_qpn = req.local_qpn;
  c.service_id = req.service_id;
  c.transport = static_cast<Transport>(req.transport);
  c.receive_psn = req.starting_psn;
  // Queue pairs are often made ready to send before the REP says with which number they begin: until it says otherwise,
  // with the one that the other end begins with.
  c.send_psn = req.starting_psn;
  c.ack_timeout = req.primary.ack_timeout;
  c.responder_resources = req.initiator_depth;
  c.initiator_depth = req.responder_resources;
  c.retry_count = req.retry_count;
  c.rnr_retry_count = req.rnr_retry_count;
  c.max_retries = req.max_cm_retries;
  c.response_timeout = to_ns(req.local_response_timeout);
}

// It came before, or belongs to a connection that is over.
bool Manager::is_repeated(u32 port, const wire::Packet& packet, const msg::Req& req) {
  auto known = by_remote_id_.find({req.local_ca_guid, req.local_id});
  if (known == by_remote_id_.end()) return false;
  Connection* c = find(known->second);
  if (!c || c->state == State::timewait)
    refuse(port, packet, About::req, RejectReason::stale_connection, 0, req.local_id);
  else if (c->state == State::req_received && c->delay)
    send(*c, msg::Mra{c->id, c->remote_id, static_cast<u8>(About::req), c->delay, {}});
  return true;
}

// The other's queue pair is here still that of another connection, whose end it has forgotten.
bool Manager::is_stale(u32 port, const wire::Packet& packet, const msg::Req& req, u64 now) {
  auto known = by_remote_qp_.find({req.local_ca_guid, req.local_qpn});
  if (known == by_remote_qp_.end()) return false;
  const u32 other = known->second;
  refuse(port, packet, About::req, RejectReason::stale_connection, 0, req.local_id);
  static_cast<void>(disconnect(other, now));
  return true;
}

// -- REP

void Manager::got(u32 port, const wire::Packet& packet, const msg::Rep& rep, bool, u64 now) {
  Connection* c = find(rep.remote_id);
  if (!c || (c->state != State::req_sent && c->state != State::mra_req_received))
    return repeated_rep(port, packet, rep);
  const RemoteQp qp{rep.local_ca_guid, rep.local_qpn};
  if (by_remote_qp_.contains(qp)) {
    refuse(port, packet, About::rep, RejectReason::stale_connection, c->id, rep.local_id);
    const u32 id = c->id;
    reset(*c);
    Event event;
    event.what = Happening::rejected;
    event.id = id;
    event.status = static_cast<u16>(RejectReason::stale_connection);
    event.private_data.resize(sizeof(msg::Rej::private_data));
    return outside_.happened(event);
  }
  static_cast<void>(now);
  stop_timer(*c);
  c->state = State::rep_received;
  c->remote_id = rep.local_id;
  c->remote_guid = rep.local_ca_guid;
  c->remote_qpn = rep.local_qpn;
  c->receive_psn = rep.starting_psn;
  c->initiator_depth = rep.responder_resources;
  c->responder_resources = rep.initiator_depth;
  c->rnr_retry_count = rep.rnr_retry_count;
  c->ack_timeout = ack_timeout(rep.target_ack_delay, c->path.packet_life);
  remember(*c, RemoteId{rep.local_ca_guid, rep.local_id}, qp);
  Event event;
  event.what = Happening::rep_received;
  event.id = c->id;
  event.remote_qpn = rep.local_qpn;
  event.qkey = rep.local_qkey;
  event.responder_resources = rep.initiator_depth;
  event.initiator_depth = rep.responder_resources;
  event.flow_control = rep.flow_control;
  event.rnr_retry_count = rep.rnr_retry_count;
  event.srq = rep.srq;
  event.private_data = bytes_of(rep.private_data);
  outside_.happened(event);
}

void Manager::repeated_rep(u32, const wire::Packet&, const msg::Rep& rep) {
  Connection* c = find(rep.remote_id, rep.local_id);
  if (!c) return;
  if (c->state == State::established)
    outside_.send(c->port, packet_to(*c, msg::emit(msg::Rtu{c->id, c->remote_id, {}}, c->transaction)));
  else if (c->state == State::rep_received && c->delay)
    send(*c, msg::Mra{c->id, c->remote_id, static_cast<u8>(About::rep), c->delay, {}});
}

// -- what follows

void Manager::got(u32, const wire::Packet&, const msg::Rtu& rtu, bool, u64) {
  Connection* c = find(rtu.remote_id, rtu.local_id);
  if (!c || (c->state != State::rep_sent && c->state != State::mra_rep_received)) return;
  stop_timer(*c);
  c->state = State::established;
  tell(*c, Happening::established);
}

void Manager::got(u32, const wire::Packet&, const msg::Mra& mra, bool, u64 now) {
  Connection* c = find(mra.remote_id);
  if (!c) return;
  const auto about = static_cast<About>(mra.about);
  if (about == About::req && c->state == State::req_sent)
    c->state = State::mra_req_received;
  else if (about == About::rep && c->state == State::rep_sent)
    c->state = State::mra_rep_received;
  else if (about != About::other || c->state != State::established || !c->lap_sent)
    return;
  start_timer(*c, now + to_ns(mra.service_timeout) + to_ns(c->ack_timeout));
}

Manager::Connection* Manager::rejected(const msg::Rej& rej) {
  if (rej.reason == static_cast<u16>(RejectReason::timeout)) {
    const u64 guid = wire::get(rej.information, {0, 64});
    auto known = by_remote_id_.find({guid, rej.local_id});
    return known == by_remote_id_.end() ? nullptr : find(known->second);
  }
  if (rej.about == static_cast<u8>(About::req)) return find(rej.remote_id);
  return find(rej.remote_id, rej.local_id);
}

void Manager::got(u32, const wire::Packet&, const msg::Rej& rej, bool, u64 now) {
  Connection* c = rejected(rej);
  if (!c) return;
  switch (c->state) {
    case State::req_sent:
    case State::mra_req_received:
    case State::rep_sent:
    case State::mra_rep_received:
    case State::req_received:
      if (rej.reason == static_cast<u16>(RejectReason::stale_connection))
        enter_timewait(*c, now);
      else
        reset(*c);
      break;
    case State::rep_received:
    case State::dreq_sent:
      enter_timewait(*c, now);
      break;
    case State::established:
      if (!c->lap_sent) return;
      enter_timewait(*c, now);
      break;
    default:
      return;
  }
  Event event;
  event.what = Happening::rejected;
  event.id = c->id;
  event.status = rej.reason;
  event.private_data = bytes_of(rej.private_data);
  outside_.happened(event);
}

void Manager::got(u32 port, const wire::Packet& packet, const msg::Dreq& dreq, bool, u64) {
  Connection* c = find(dreq.remote_id, dreq.local_id);
  // Whoever asks for the end of what is over must not ask again and again.
  if (!c) return answer(packet, port, msg::Drep{dreq.remote_id, dreq.local_id, {}});
  if (dreq.remote_qpn != c->local_qpn) return;
  switch (c->state) {
    case State::rep_sent:
    case State::mra_rep_received:
    case State::established:
    case State::dreq_sent:
      stop_timer(*c);
      c->state = State::dreq_received;
      return tell(*c, Happening::dreq_received);
    case State::timewait:
      return send_drep(*c);
    default:
      return;
  }
}

void Manager::got(u32, const wire::Packet&, const msg::Drep& drep, bool, u64 now) {
  Connection* c = find(drep.remote_id, drep.local_id);
  if (!c || (c->state != State::dreq_sent && c->state != State::dreq_received)) return;
  enter_timewait(*c, now);
  tell(*c, Happening::drep_received);
}

// -- another path

void Manager::got(u32, const wire::Packet&, const msg::Lap& lap, bool ethernet, u64) {
  Connection* c = find(lap.remote_id, lap.local_id);
  if (!c || c->state != State::established || c->lap_received) return;
  c->lap_received = true;
  Event event;
  event.what = Happening::lap_received;
  event.id = c->id;
  event.alternate = turned(lap.alternate, c->path.pkey, c->path.mtu, ethernet);
  event.private_data = bytes_of(lap.private_data);
  outside_.happened(event);
}

void Manager::got(u32, const wire::Packet&, const msg::Apr& apr, bool, u64) {
  Connection* c = find(apr.remote_id, apr.local_id);
  if (!c || c->state != State::established || !c->lap_sent) return;
  stop_timer(*c);
  c->lap_sent = false;
  Event event;
  event.what = Happening::apr_received;
  event.id = c->id;
  event.status = apr.status;
  event.private_data = bytes_of(apr.private_data);
  outside_.happened(event);
}

// -- datagrams

void Manager::got(u32 port, const wire::Packet& packet, const msg::SidrReq& req, bool ethernet, u64) {
  // Who asks has no CA GUID in the message: its address tells it from others.
  const u64 asker = packet.global ? wire::get(packet.global->source, {64, 64}) : packet.slid;
  const RemoteId name{~asker, req.request_id};
  if (by_remote_id_.contains(name)) return;
  const Connection* listener = listener_of(req.service_id);
  if (!listener) {
    msg::SidrRep rep;
    rep.request_id = req.request_id;
    rep.status = static_cast<u8>(SidrStatus::unsupported);
    rep.service_id = req.service_id;
    return answer(packet, port, rep);
  }
  const u32 listener_id = listener->id;
  Connection& c = add();
  c.state = State::sidr_req_received;
  c.port = port;
  c.remote_id = req.request_id;
  c.service_id = req.service_id;
  c.asked = packet;
  c.path.ethernet = ethernet;
  c.path.slid = packet.dlid;
  c.path.dlid = packet.slid;
  c.path.sl = packet.sl;
  c.path.pkey = req.pkey;
  if (packet.global) {
    c.path.sgid = packet.global->destination;
    c.path.dgid = packet.global->source;
    c.path.hop_limit = packet.global->hop_limit;
    c.path.flow_label = packet.global->flow_label;
    c.path.traffic_class = packet.global->traffic_class;
  }
  remember(c, name, std::nullopt);
  Event event;
  event.what = Happening::sidr_received;
  event.id = c.id;
  event.listener = listener_id;
  event.port = port;
  event.service_id = req.service_id;
  event.path = c.path;
  event.private_data = bytes_of(req.private_data);
  outside_.happened(event);
}

void Manager::got(u32, const wire::Packet&, const msg::SidrRep& rep, bool, u64) {
  Connection* c = find(rep.request_id);
  if (!c || c->state != State::sidr_req_sent) return;
  stop_timer(*c);
  c->state = State::idle;
  Event event;
  event.what = Happening::sidr_answered;
  event.id = c->id;
  event.status = rep.status;
  event.remote_qpn = rep.qpn;
  event.qkey = rep.qkey;
  event.private_data = bytes_of(rep.private_data);
  outside_.happened(event);
}

}  // namespace softib::cm
