#include "ipoib/connections.h"

#include <algorithm>

namespace softib::ipoib {

namespace {

using Kind = ConnectionMessage::Kind;

constexpr u32 most_tries = 6;
constexpr std::size_t most_waiting_here = 16;  // a TCP connection's first flight, which would be slow to come again
constexpr milliseconds first_wait{50}, after_failure{1000}, stalled_for{1000};
constexpr std::chrono::minutes unused_for{10};
constexpr std::size_t most_incoming = 4096;
constexpr u32 message_size = connected_mtu + Slot::packet_at;

ibv_mtu code_of(u32 bytes) {
  int code = IBV_MTU_256;
  while (code < IBV_MTU_4096 && (128 << code) < static_cast<int>(bytes)) ++code;
  return static_cast<ibv_mtu>(code);
}

}  // namespace

Result<std::unique_ptr<Connections>> Connections::make(Loop& loop, const Port& port, const Uses& uses) {
  auto connections = std::make_unique<Connections>(loop, port, uses);
  auto buffers = Receives::make(port.domain(), receives, message_size);
  if (!buffers) return fail(buffers.error());
  connections->buffers_ = std::move(*buffers);
  ibv_srq_init_attr wanted{};
  wanted.attr = {receives, 1, 0};
  connections->shared_.reset(::ibv_create_srq(port.domain(), &wanted));
  if (!connections->shared_) return fail(errno);
  connections->post_receives();
  return connections;
}

void Connections::start(const HardwareAddress& own, u16 pkey_index) {
  own_ = own;
  pkey_index_ = pkey_index;
}

void Connections::stop(bool tell_peers) {
  while (!outgoing_.empty()) end(*outgoing_.begin()->second, tell_peers);
  if (tell_peers)
    for (const auto& [qpn, one] : incoming_) tell(Kind::refuse, one.request.sender, one.request.number, qpn, 0);
  end_incoming([](const Incoming&) { return true; });
  not_before_.clear();
}

void Connections::tell(Kind kind, const HardwareAddress& to, u32 number, u32 qpn, u32 psn) {
  const ConnectionMessage message{kind, number, qpn, psn, own_, message_size};
  uses_.send({EtherType::connection, {{}, message.emit()}, to});
}

// -- queue pairs

Result<QueuePair> Connections::make_pair(u32 sends) const {
  ibv_qp_init_attr wanted{};
  wanted.send_cq = uses_.sent;
  wanted.recv_cq = uses_.received;
  wanted.srq = shared_.get();
  wanted.cap = {sends, 0, 1, 0, 0};
  wanted.qp_type = IBV_QPT_RC;
  QueuePair pair(::ibv_create_qp(port_.domain(), &wanted));
  if (!pair) return fail(errno);
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_INIT;
  attributes.pkey_index = pkey_index_;
  attributes.port_num = port_.number();
  constexpr int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
  if (const int failed = ::ibv_modify_qp(pair.get(), &attributes, mask)) return fail(failed);
  return pair;
}

// A receiver without a buffer makes the sender wait, for as long as that takes: tick() looks whether it takes too long.
Result<void> Connections::connect(ibv_qp* pair, const ConnectionMessage& peer, u32 own_psn, bool sends) const {
  const PathAnswer* path = uses_.paths->known(peer.sender.gid);
  if (!path) return fail(EHOSTUNREACH);
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_RTR;
  attributes.path_mtu = std::min(code_of(path->mtu), port_.attributes().active_mtu);
  attributes.dest_qp_num = peer.qpn;
  attributes.rq_psn = peer.psn;
  attributes.min_rnr_timer = 5;  // 40 us
  attributes.ah_attr.dlid = path->route.lid;
  attributes.ah_attr.sl = path->route.sl;
  attributes.ah_attr.static_rate = path->route.rate;
  attributes.ah_attr.port_num = port_.number();
  constexpr int to_rtr = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                         IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
  if (const int failed = ::ibv_modify_qp(pair, &attributes, to_rtr)) return fail(failed);
  if (!sends) return {};
  attributes.qp_state = IBV_QPS_RTS;
  attributes.timeout = 14;  // 67 ms
  attributes.retry_cnt = 5;
  attributes.rnr_retry = 7;
  attributes.sq_psn = own_psn;
  constexpr int to_rts =
      IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC;
  if (const int failed = ::ibv_modify_qp(pair, &attributes, to_rts)) return fail(failed);
  return {};
}

// -- ours to send with

Connections::Way Connections::send(Slot& slot, EtherType type, const HardwareAddress& to) {
  const auto at = outgoing_.find(to);
  if (at == outgoing_.end()) {
    begin(to);
    return outgoing_.contains(to) ? Way::waits : Way::none;
  }
  Outgoing& connection = *at->second;
  if (connection.state != Outgoing::State::ready) return Way::waits;
  if (Slot::packet_at + slot.size > connection.mtu) return Way::none;
  const auto bytes = slot.as_message(type);
  ibv_sge part{reinterpret_cast<u64>(bytes.data()), static_cast<u32>(bytes.size()), uses_.slots->key()};
  ibv_send_wr request{};
  request.wr_id = slot.number;
  request.sg_list = &part;
  request.num_sge = 1;
  request.opcode = IBV_WR_SEND;
  request.send_flags = IBV_SEND_SIGNALED;
  ibv_send_wr* bad = nullptr;
  if (::ibv_post_send(connection.pair.get(), &request, &bad) == 0)
    ++connection.outstanding;
  else
    uses_.slots->give_back(slot.number);
  return Way::taken;
}

void Connections::begin(const HardwareAddress& to) {
  const auto until = not_before_.find(to);
  if (until != not_before_.end() && Clock::now() < until->second) return;
  not_before_.erase(to);
  auto pair = make_pair(Slots::count);
  if (!pair) return;
  auto connection = std::make_unique<Outgoing>();
  connection->to = to;
  connection->number = static_cast<u32>(random_());
  connection->psn = static_cast<u32>(random_()) & 0xff'ffff;
  connection->pair = std::move(*pair);
  by_qpn_[connection->pair->qp_num] = connection.get();
  Outgoing& kept = *outgoing_.emplace(to, std::move(connection)).first->second;
  ask(kept);
}

void Connections::ask(Outgoing& connection) {
  tell(Kind::request, connection.to, connection.number, connection.pair->qp_num, connection.psn);
  loop_.after(first_wait * (1 << connection.tries++),
              [this, to = connection.to, number = connection.number] { retry(to, number); });
}

void Connections::retry(const HardwareAddress& to, u32 number) {
  const auto at = outgoing_.find(to);
  if (at == outgoing_.end() || at->second->number != number || at->second->state != Outgoing::State::asking) return;
  if (at->second->tries < most_tries) return ask(*at->second);
  not_before_[to] = Clock::now() + after_failure;
  end(*at->second, false);
}

void Connections::hold(Frame frame) {
  const auto at = outgoing_.find(frame.to);
  if (at != outgoing_.end()) ipoib::hold(at->second->waiting, std::move(frame), most_waiting_here);
}

void Connections::ready(Outgoing& connection, const ConnectionMessage& accepted) {
  if (!connect(connection.pair.get(), accepted, connection.psn, true)) return end(connection, true);
  connection.state = Outgoing::State::ready;
  connection.mtu = std::min(accepted.mtu, message_size);
  for (const Frame& frame : std::exchange(connection.waiting, {})) uses_.resend(frame);
}

// Its sends, if any, come back as flushed; then it goes.
void Connections::end(Outgoing& connection, bool tell_peer) {
  if (tell_peer) tell(Kind::close, connection.to, connection.number, connection.pair->qp_num, 0);
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_ERR;
  static_cast<void>(::ibv_modify_qp(connection.pair.get(), &attributes, IBV_QP_STATE));
  connection.state = Outgoing::State::ending;
  auto one = outgoing_.extract(connection.to);
  if (connection.outstanding != 0) {
    ending_.push_back(std::move(one.mapped()));
    return;
  }
  by_qpn_.erase(connection.pair->qp_num);
}

void Connections::sent(const ibv_wc& wc) {
  const auto at = by_qpn_.find(wc.qp_num);
  if (at == by_qpn_.end()) return;
  Outgoing& connection = *at->second;
  --connection.outstanding;
  ++connection.done;
  if (wc.status != IBV_WC_SUCCESS && connection.state == Outgoing::State::ready) {
    uses_.paths->forget(connection.to.gid);
    return end(connection, false);
  }
  if (connection.state != Outgoing::State::ending || connection.outstanding != 0) return;
  by_qpn_.erase(at);
  std::erase_if(ending_, [&](const auto& one) { return one.get() == &connection; });
}

// -- others', to receive from

template <typename Which>
void Connections::end_incoming(Which which) {
  for (auto at = incoming_.begin(); at != incoming_.end();) {
    const auto one = at++;
    if (!which(one->second)) continue;
    ibv_qp_attr attributes{};
    attributes.qp_state = IBV_QPS_ERR;
    static_cast<void>(::ibv_modify_qp(one->second.pair.get(), &attributes, IBV_QP_STATE));
    retired_.push_back(std::move(one->second.pair));
    incoming_.erase(one);
  }
}

void Connections::accept(const ConnectionMessage& request) {
  for (const auto& [qpn, incoming] : incoming_)
    if (incoming.request == request) return tell(Kind::accept, request.sender, request.number, qpn, 0);
  // One from each port: older ones are of a service that has been started anew, or has lost its end.
  end_incoming([&](const Incoming& one) { return one.request.sender.gid == request.sender.gid; });
  // It asks again, and by then the path may be known.
  if (!uses_.paths->find(request.sender.gid)) return;
  auto pair = incoming_.size() < most_incoming ? make_pair(1) : Result<QueuePair>(fail(ENOMEM));
  if (!pair || !connect(pair->get(), request, 0, false))
    return tell(Kind::refuse, request.sender, request.number, 0, 0);
  const u32 qpn = (*pair)->qp_num;
  incoming_[qpn] = {request, std::move(*pair), Clock::now()};
  tell(Kind::accept, request.sender, request.number, qpn, 0);
}

void Connections::take(const ConnectionMessage& message) {
  if (message.kind == Kind::request) return accept(message);
  if (message.kind == Kind::close)
    return end_incoming([&](const Incoming& one) {
      return one.request.sender == message.sender && one.request.number == message.number;
    });
  const auto at = outgoing_.find(message.sender);
  if (at == outgoing_.end() || at->second->number != message.number) return;
  Outgoing& connection = *at->second;
  const bool asking = connection.state == Outgoing::State::asking;
  if (message.kind == Kind::accept) {
    if (asking) ready(connection, message);
    return;
  }
  if (asking) not_before_[connection.to] = Clock::now() + after_failure;
  end(connection, false);
}

void Connections::received(u32 qpn) {
  const auto at = incoming_.find(qpn);
  if (at != incoming_.end()) at->second.used = Clock::now();
}

void Connections::tick(Time now) {
  std::vector<Outgoing*> stalled;
  for (const auto& [to, connection] : outgoing_) {
    if (connection->outstanding == 0 || connection->done != connection->done_then) connection->progress = now;
    connection->done_then = connection->done;
    if (now - connection->progress > stalled_for) stalled.push_back(connection.get());
  }
  for (Outgoing* connection : stalled) end(*connection, true);
  retired_.clear();
  end_incoming([&](const Incoming& one) {
    const bool unused = now - one.used > unused_for;
    if (unused) tell(Kind::refuse, one.request.sender, one.request.number, one.pair->qp_num, 0);
    return unused;
  });
  std::erase_if(not_before_, [&](const auto& one) { return one.second < now; });
}

}  // namespace softib::ipoib
