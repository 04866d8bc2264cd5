// Messages that are long on one side and short on the other. Both kinds are matched apart, so without this nobody would
// miss anything but time: a short one is sent at once and waits for its receive, and a long one waits for a grant. What
// tells them from messages that only come early is their ordinal within the stream.
#include <algorithm>

#include "coll/transport/verbs/engine.h"

namespace softib::coll::verbs {

// A short message came where a long one is granted.
bool Engine::is_expected_long(Peer& peer, const Header& header) {
  if (header.count == 0) return false;
  for (const Landing* landing : peer.landings) {
    const Receive& receive = *landing->receive;
    if (receive.stream != header.stream || receive.ordinal != header.count) continue;
    complain_of_length(peer, false, header.bytes, receive.bytes);
    return true;
  }
  return false;
}

// It has come already where a long one is to be received.
bool Engine::came_as_short(Peer& peer, Receive& receive) {
  if (receive.ordinal == 0) return false;
  const auto same = [&](const auto& it) { return it.stream == receive.stream && it.ordinal == receive.ordinal; };
  std::erase_if(peer.long_waits, same);
  Arrival* arrival = peer.arrivals.take(receive.stream, same);
  if (arrival == nullptr) return false;
  receive.state = State::failed;
  complain_of_length(peer, false, arrival->bytes, receive.bytes);
  ::operator delete(arrival);
  return true;
}

// The peer has told that it waits with a long one where a short one is to be received.
bool Engine::waits_as_long(Peer& peer, Receive& receive) {
  const auto same = [&](const auto& it) { return it.stream == receive.stream && it.ordinal == receive.ordinal; };
  const auto wait = std::find_if(peer.long_waits.begin(), peer.long_waits.end(), same);
  if (receive.ordinal == 0 || wait == peer.long_waits.end()) return false;
  receive.state = State::failed;
  complain_of_length(peer, false, wait->bytes, receive.bytes);
  return true;
}

void Engine::take_waits(Peer& peer, const Header& header) {
  const auto same = [&](const Receive& it) { return it.stream == header.stream && it.ordinal == header.count; };
  for (const Landing* landing : peer.landings)
    if (same(*landing->receive)) return;  // the grant is on its way
  if (Receive* receive = peer.receives.take(header.stream, same)) {
    receive->state = State::failed;
    return complain_of_length(peer, false, header.bytes, receive->bytes);
  }
  peer.long_waits.push_back({header.stream, header.count, header.bytes});
}

// Before sleep, so only when nothing has moved for a while; each send once.
void Engine::tell_of_waits(Peer& peer) {
  if (peer.standing != Standing::connected) return;
  peer.sends.for_each([&](Send& send) {
    if (send.ordinal == 0 || std::exchange(send.progress, 1) != 0) return;
    tell(peer, {.word = Word::waits, .stream = send.stream, .bytes = send.bytes, .count = send.ordinal});
  });
}

}  // namespace softib::coll::verbs
