// Ids, timers, and the end of a connection.
#include "cm/manager.h"

#include <utility>

#include "cm/time.h"

namespace softib::cm {

u32 Manager::create() { return add().id; }

Manager::Connection& Manager::add() {
  do ++last_id_;
  while (last_id_ == 0 || connections_.contains(last_id_));
  Connection& connection = connections_[last_id_];
  connection.id = last_id_;
  connection.transaction = last_id_;
  return connection;
}

Manager::Connection* Manager::find(u32 id) {
  auto found = connections_.find(id);
  return found == connections_.end() ? nullptr : &found->second;
}

Manager::Connection* Manager::find(u32 id, u32 remote_id) {
  Connection* connection = find(id);
  return connection && connection->remote_id == remote_id ? connection : nullptr;
}

State Manager::state(u32 id) const {
  auto found = connections_.find(id);
  return found == connections_.end() ? State::idle : found->second.state;
}

std::optional<QueuePairView> Manager::queue_pair(u32 id) const {
  auto found = connections_.find(id);
  if (found == connections_.end()) return std::nullopt;
  const Connection& c = found->second;
  QueuePairView view;
  view.state = c.state;
  view.port = c.port;
  view.path = c.path;
  view.alternate = c.alternate;
  view.transport = c.transport;
  view.remote_qpn = c.remote_qpn;
  view.receive_psn = c.receive_psn;
  view.send_psn = c.send_psn;
  view.mtu = c.path.mtu;
  view.timeout = c.ack_timeout;
  if (c.alternate) view.alternate_timeout = ack_timeout(local_ca_delay, c.alternate->packet_life);
  view.responder_resources = c.responder_resources;
  view.initiator_depth = c.initiator_depth;
  view.retry_count = c.retry_count;
  view.rnr_retry_count = c.rnr_retry_count;
  return view;
}

// -- listening

Result<void> Manager::listen(u32 id, u64 service_id, u64 mask) {
  Connection* connection = find(id);
  if (!connection || connection->state != State::idle) return fail(EINVAL);
  if (listeners_.contains({mask, service_id & mask})) return fail(EBUSY);
  connection->state = State::listen;
  connection->service_id = service_id & mask;
  connection->mask = mask;
  listeners_[{mask, connection->service_id}] = id;
  return {};
}

Manager::Connection* Manager::listener_of(u64 service_id) {
  for (auto at = listeners_.begin(); at != listeners_.end();) {
    const u64 mask = at->first.first;
    if (auto found = listeners_.find({mask, service_id & mask}); found != listeners_.end()) return find(found->second);
    at = listeners_.upper_bound({mask, ~0ULL});
  }
  return nullptr;
}

// -- what is known of the other end

void Manager::remember(Connection& connection, std::optional<RemoteId> id, std::optional<RemoteQp> qp) {
  connection.known_as = id;
  connection.holds_qp = qp;
  if (id) by_remote_id_[*id] = connection.id;
  if (qp) by_remote_qp_[*qp] = connection.id;
}

void Manager::forget(Connection& connection) {
  if (connection.known_as) by_remote_id_.erase(*connection.known_as);
  if (connection.holds_qp) by_remote_qp_.erase(*connection.holds_qp);
  connection.known_as.reset();
  connection.holds_qp.reset();
}

// -- timers

void Manager::stop_timer(Connection& connection) {
  if (connection.deadline != never) deadlines_.erase({connection.deadline, connection.id});
  connection.deadline = never;
}

void Manager::start_timer(Connection& connection, u64 at) {
  stop_timer(connection);
  connection.deadline = at;
  deadlines_.emplace(at, connection.id);
}

u64 Manager::on_time(u64 now) {
  while (!deadlines_.empty() && deadlines_.begin()->first <= now) {
    Connection& connection = connections_.at(deadlines_.begin()->second);
    if (connection.retries_left == 0 || !connection.last) {
      stop_timer(connection);
      timed_out(connection, now);
      continue;
    }
    --connection.retries_left;
    start_timer(connection, now + connection.interval);
    const wire::Packet again = *connection.last;
    outside_.send(connection.port, again);
  }
  end_timewait(now);
  u64 next = deadlines_.empty() ? never : deadlines_.begin()->first;
  if (!past_.empty()) next = std::min(next, past_.begin()->first);
  return next;
}

void Manager::timed_out(Connection& connection, u64 now) {
  switch (connection.state) {
    case State::req_sent:
    case State::mra_req_received:
      reset(connection);
      return tell(connection, Happening::req_failed);
    case State::rep_sent:
    case State::mra_rep_received:
      reset(connection);
      return tell(connection, Happening::rep_failed);
    case State::dreq_sent:
      enter_timewait(connection, now);
      return tell(connection, Happening::dreq_failed);
    case State::sidr_req_sent:
      connection.state = State::idle;
      return tell(connection, Happening::sidr_failed);
    case State::established:
      connection.lap_sent = false;
      return tell(connection, Happening::lap_failed);
    default:
      return;
  }
}

// -- the end

void Manager::reset(Connection& connection) {
  stop_timer(connection);
  forget(connection);
  connection.state = State::idle;
}

void Manager::enter_timewait(Connection& connection, u64 now) {
  stop_timer(connection);
  connection.state = State::timewait;
  past_.emplace(now + to_ns(connection.ack_timeout),
                Past{connection.id, std::exchange(connection.known_as, std::nullopt),
                     std::exchange(connection.holds_qp, std::nullopt)});
}

void Manager::end_timewait(u64 now) {
  while (!past_.empty() && past_.begin()->first <= now) {
    const Past past = past_.begin()->second;
    past_.erase(past_.begin());
    if (past.known_as) by_remote_id_.erase(*past.known_as);
    if (past.holds_qp) by_remote_qp_.erase(*past.holds_qp);
    Connection* connection = find(past.id);
    if (!connection || connection->state != State::timewait) continue;
    connection->state = State::idle;
    tell(*connection, Happening::timewait_over);
  }
}

void Manager::destroy(u32 id, u64 now) {
  Connection* connection = find(id);
  if (!connection) return;
  switch (connection->state) {
    case State::listen:
      listeners_.erase({connection->mask, connection->service_id});
      break;
    case State::req_sent:
    case State::mra_req_received:
      static_cast<void>(reject(id, RejectReason::timeout, {}, now));
      break;
    case State::req_received:
    case State::rep_sent:
    case State::mra_rep_received:
    case State::rep_received:
      static_cast<void>(reject(id, RejectReason::consumer_defined, {}, now));
      break;
    case State::established:
      static_cast<void>(disconnect(id, now));
      enter_timewait(*connection, now);
      break;
    case State::dreq_sent:
      enter_timewait(*connection, now);
      break;
    case State::dreq_received:
      static_cast<void>(part(id, now));
      break;
    case State::sidr_req_received:
      static_cast<void>(answer_service(id, {.status = SidrStatus::reject, .private_data = {}}));
      break;
    default:
      break;
  }
  reset(*connection);
  connections_.erase(id);
}

void Manager::ignore(u32 id) {
  Connection* connection = find(id);
  if (connection && connection->state == State::req_received) reset(*connection);
}

void Manager::tell(const Connection& connection, Happening what) {
  Event event;
  event.what = what;
  event.id = connection.id;
  outside_.happened(event);
}

}  // namespace softib::cm
