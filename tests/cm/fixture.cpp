#include "cm/fixture.h"

#include <algorithm>

namespace softib::cm {

void Wire::End::send(u32, const wire::Packet& packet) {
  wire.sent.push_back({index, packet, wire.now});
  if (!wire.loses || !wire.loses(index, packet)) wire.under_way_.push_back({index, packet, wire.now});
}

void Wire::End::happened(const Event& event) {
  events.push_back(event);
  if (answer) answer(event);
}

const Event& Wire::End::last(Happening what) const {
  auto found = std::find_if(events.rbegin(), events.rend(), [what](const Event& event) { return event.what == what; });
  if (found != events.rend()) return *found;
  ADD_FAILURE() << "no event of kind " << static_cast<int>(what);
  static const Event none;
  return none;
}

size_t Wire::End::count(Happening what) const {
  return static_cast<size_t>(
      std::count_if(events.begin(), events.end(), [what](const Event& event) { return event.what == what; }));
}

void Wire::settle() {
  while (!under_way_.empty()) {
    const Sent one = under_way_.front();
    under_way_.pop_front();
    ends[1 - one.from].manager.received(1, one.packet, false, now);
  }
}

void Wire::pass(u64 duration) {
  const u64 until = now + duration;
  settle();
  for (;;) {
    const u64 next = std::min(ends[0].manager.on_time(now), ends[1].manager.on_time(now));
    settle();
    if (next > until) break;
    now = std::max(now, next);
  }
  now = until;
}

size_t Wire::count_sent(wire::cm::Attribute what) const {
  return static_cast<size_t>(std::count_if(
      sent.begin(), sent.end(), [what](const Sent& one) { return wire::cm::attribute_of(one.packet.mad) == what; }));
}

Path some_path() {
  Path path;
  path.sgid = {0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
  path.dgid = {0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2};
  path.slid = 3;
  path.dlid = 4;
  path.sl = 2;
  path.mtu = 5;
  path.rate = 3;
  path.packet_life = 18;
  return path;
}

ConnectParameters some_parameters(u64 service_id) {
  ConnectParameters p;
  p.port = 1;
  p.primary = some_path();
  p.service_id = service_id;
  p.qpn = 0x111;
  p.starting_psn = 0xabc;
  p.responder_resources = 4;
  p.initiator_depth = 3;
  p.retry_count = 7;
  p.rnr_retry_count = 6;
  p.private_data = {1, 2, 3};
  return p;
}

u32 Wire::ask(const ConnectParameters& parameters) {
  const u32 id = ends[0].manager.create();
  EXPECT_TRUE(ends[0].manager.connect(id, parameters, now));
  settle();
  return id;
}

std::pair<u32, u32> Wire::connected() {
  if (ends[1].count(Happening::req_received) == 0) {
    const u32 listener = ends[1].manager.create();
    EXPECT_TRUE(ends[1].manager.listen(listener, 7471, ~0ULL));
  }
  ConnectParameters parameters = some_parameters();
  parameters.qpn += static_cast<u32>(ends[1].events.size());
  const u32 asker = ask(parameters);
  const u32 answerer = ends[1].last(Happening::req_received).id;
  EXPECT_TRUE(
      ends[1].manager.accept(answerer, {.qpn = 0x200 + answerer, .starting_psn = 0xdef, .private_data = {9}}, now));
  settle();
  EXPECT_TRUE(ends[0].manager.confirm(asker, now));
  settle();
  return {asker, answerer};
}

}  // namespace softib::cm
