#include "wire/rmpp_exchange.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace softib::wire::rmpp {

namespace {

// Of messages that have arrived: a sender that missed its last ACK repeats within a second, when few have come since.
constexpr std::size_t most_lingering = 64;

}  // namespace

void Exchange::send(const Peer& peer, Message message, u64 now) {
  senders_.insert_or_assign(peer, Sender(std::move(message), timing_));
  const bool outermost = !std::exchange(busy_, true);
  push(peer, now);
  forget_if_unused(peer);
  if (!outermost) return;
  busy_ = false;
  process(now);
}

void Exchange::received(const Peer& peer, const Mad& mad, u64 now) {
  arrivals_.push_back({peer, mad});
  process(now);
}

// One at a time: what arrives while a segment is being sent waits for its turn.
void Exchange::process(u64 now) {
  if (std::exchange(busy_, true)) return;
  while (!arrivals_.empty()) {
    const Arrival arrival = arrivals_.front();
    arrivals_.pop_front();
    take(arrival, now);
    forget_if_unused(arrival.peer);
  }
  busy_ = false;
}

void Exchange::take(const Arrival& arrival, u64 now) {
  const Type type = type_of(arrival.mad);
  const auto sender = senders_.find(arrival.peer);
  if (type == Type::ack || ((type == Type::stop || type == Type::abort) && sender != senders_.end())) {
    if (sender == senders_.end()) return;
    sender->second.received(arrival.mad, now);
    return push(arrival.peer, now);
  }
  take_data(arrival, now);
}

void Exchange::take_data(const Arrival& arrival, u64 now) {
  auto at = receivers_.find(arrival.peer);
  if (at == receivers_.end()) {
    const bool begins = type_of(arrival.mad) == Type::data && get(arrival.mad, header::segment) == 1;
    if (!begins || receivers_.size() - done_.size() >= most_receivers_) return;
    at = receivers_.emplace(arrival.peer, Receiver(arrival.peer.mgmt_class, timing_)).first;
  }
  const Outcome before = at->second.outcome();
  const auto answer = at->second.received(arrival.mad, now);
  const Outcome after = at->second.outcome();
  std::optional<Message> message;
  if (before == Outcome::going && after == Outcome::done) message = at->second.take();
  if (after == Outcome::failed) receivers_.erase(at);
  if (message) linger(arrival.peer);
  if (answer) owner_.transmit(arrival.peer, *answer);
  if (message) owner_.arrived(arrival.peer, std::move(*message));
}

void Exchange::linger(const Peer& peer) {
  done_.push_back(peer);
  if (done_.size() <= most_lingering) return;
  const Peer oldest = done_.front();
  done_.pop_front();
  receivers_.erase(oldest);
  forget_if_unused(oldest);
}

void Exchange::expire(u64 now) {
  std::vector<Peer> gone;
  for (const auto& [peer, receiver] : receivers_)
    if (receiver.deadline() <= now) gone.push_back(peer);
  for (const Peer& peer : gone) receivers_.erase(peer);
  std::erase_if(done_, [this](const Peer& peer) { return !receivers_.contains(peer); });
  for (const Peer& peer : gone) forget_if_unused(peer);
}

void Exchange::forget_if_unused(const Peer& peer) {
  const auto is_its = [&peer](const Arrival& arrival) { return arrival.peer == peer; };
  if (senders_.contains(peer) || receivers_.contains(peer)) return;
  if (std::none_of(arrivals_.begin(), arrivals_.end(), is_its)) owner_.forgotten(peer);
}

// Sends what the window allows. transmit() may come back with a new send(): the sender is looked up each time.
void Exchange::push(const Peer& peer, u64 now) {
  for (;;) {
    const auto at = senders_.find(peer);
    if (at == senders_.end()) return;
    const auto mad = at->second.next(now);
    if (mad) {
      owner_.transmit(peer, *mad);
      continue;
    }
    if (at->second.outcome() == Outcome::going) return;
    const Sender ended = std::move(at->second);
    senders_.erase(at);
    return owner_.sent(peer, ended.outcome(), ended.status());
  }
}

u64 Exchange::on_time(u64 now) {
  if (busy_) return deadline();
  std::vector<Peer> due;
  for (const auto& [peer, sender] : senders_)
    if (sender.deadline() <= now) due.push_back(peer);
  busy_ = true;
  for (const Peer& peer : due) {
    if (const auto at = senders_.find(peer); at != senders_.end()) at->second.on_time(now);
    push(peer, now);
    forget_if_unused(peer);
  }
  busy_ = false;
  expire(now);
  process(now);
  return deadline();
}

u64 Exchange::deadline() const {
  u64 first = ~u64{0};
  for (const auto& [peer, sender] : senders_) first = std::min(first, sender.deadline());
  for (const auto& [peer, receiver] : receivers_) first = std::min(first, receiver.deadline());
  return first;
}

}  // namespace softib::wire::rmpp
