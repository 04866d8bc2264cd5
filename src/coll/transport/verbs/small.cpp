// Small messages go at once, in one SEND with their header, and are copied out of the control queue pair's receive. So
// many may wait there for a receive that nobody posts: beyond a budget they are announced instead, and wait at home.
#include <cstring>
#include <new>

#include "coll/transport/verbs/engine.h"

namespace softib::coll::verbs {

namespace {

constexpr u32 unmatched_at_most = 64;  // small messages at a peer that have found no receive, as far as known here

}  // namespace

bool Engine::within_budget(const Peer& peer) const { return peer.sent - peer.sent_matched < unmatched_at_most; }

void Engine::send(Send& send) {
  send.state = State::waiting;
  Peer* peer = find(send.peer);
  if (peer == nullptr || peer->standing != Standing::connected) {
    send.state = State::failed;
    if (peer != nullptr && peer->standing == Standing::left) fail(*peer, Code::remote_error, "has left");
    return;
  }
  if (send.bytes > peer->small_bytes) {
    const Grant* grant = peer->grants.take(send.stream);
    if (grant == nullptr) return peer->sends.push(send);
    begin_transfer(*peer, send, *grant);
    delete grant;
    return;
  }
  if (peer->outbox.empty() && peer->notes.empty() && within_budget(*peer) && may_post(*peer, 2))
    return post_small(*peer, send);
  peer->outbox.push(send);
  make_busy(*peer);
}

void Engine::post_small(Peer& peer, Send& send) {
  peer.sent++;
  post_control(peer, {.word = Word::data, .stream = send.stream, .bytes = send.bytes, .count = send.ordinal},
               send.memory, static_cast<u32>(send.bytes));
  send.state = peer.standing == Standing::closed ? State::failed : State::done;
}

bool Engine::post_outbox(Peer& peer) {
  bool moved = false;
  while (!peer.outbox.empty() && may_post(peer, 2)) {
    Send& send = *peer.outbox.pop();
    moved = true;
    if (within_budget(peer)) {
      post_small(peer, send);
      continue;
    }
    send.token = peer.announcements++;
    peer.announced.push(send);
    post_control(peer,
                 {.word = Word::announce,
                  .stream = send.stream,
                  .bytes = send.bytes,
                  .token = static_cast<u32>(send.token),
                  .count = send.ordinal},
                 nullptr, 0);
  }
  return moved;
}

void Engine::receive(Receive& receive) {
  receive.state = State::waiting;
  Peer* peer = find(receive.peer);
  if (peer == nullptr || peer->standing == Standing::closed) {
    receive.state = State::failed;
    return;
  }
  if (receive.bytes > parts_->receive_slots.slot_bytes() - sizeof(Header)) return begin_landing(*peer, receive, 0);
  if (!peer->long_waits.empty() && waits_as_long(*peer, receive)) return;
  Arrival* arrival = peer->arrivals.take(receive.stream);
  if (arrival == nullptr) return peer->receives.push(receive);
  if (arrival->bytes != receive.bytes) {
    receive.state = State::failed;
    complain_of_length(*peer, false, arrival->bytes, receive.bytes);
  } else if (arrival->announced) {
    begin_landing(*peer, receive, arrival->token + 1);
  } else {
    deliver(*peer, receive, arrival->data(), arrival->bytes);
  }
  ::operator delete(arrival);
}

void Engine::take_data(Peer& peer, const Header& header, const std::byte* payload) {
  Receive* receive = peer.receives.take(header.stream);
  if (receive != nullptr) {
    if (receive->bytes != header.bytes) {
      receive->state = State::failed;
      return complain_of_length(peer, false, header.bytes, receive->bytes);
    }
    return deliver(peer, *receive, payload, header.bytes);
  }
  if (is_expected_long(peer, header)) return;
  auto* arrival = new (::operator new(sizeof(Arrival) + header.bytes)) Arrival;
  arrival->stream = header.stream;
  arrival->bytes = header.bytes;
  arrival->ordinal = header.count;
  std::memcpy(arrival->data(), payload, header.bytes);
  peer.arrivals.push(*arrival);
}

void Engine::take_announcement(Peer& peer, const Header& header) {
  Receive* receive = peer.receives.take(header.stream);
  if (receive != nullptr) {
    if (receive->bytes != header.bytes) {
      receive->state = State::failed;
      return complain_of_length(peer, false, header.bytes, receive->bytes);
    }
    return begin_landing(peer, *receive, header.token + 1);
  }
  if (is_expected_long(peer, header)) return;
  auto* arrival = new (::operator new(sizeof(Arrival))) Arrival;
  arrival->stream = header.stream;
  arrival->bytes = header.bytes;
  arrival->announced = true;
  arrival->token = header.token;
  arrival->ordinal = header.count;
  peer.arrivals.push(*arrival);
}

void Engine::deliver(Peer& peer, Receive& receive, const std::byte* data, u64 bytes) {
  peer.matched++;
  if (receive.sink != nullptr) {
    if (bytes > 0) receive.sink->take(0, data, bytes);
  } else {
    if (bytes > 0) std::memcpy(receive.memory, data, bytes);
    receive.data = receive.memory;
  }
  receive.state = State::done;
}

}  // namespace softib::coll::verbs
