#include "net/losses.h"

#include <algorithm>

namespace softib::net {

namespace {

void add_violations(u16& counter, u64 times) {
  counter = static_cast<u16>(std::min<u64>(counter + std::min<u64>(times, 0xffff), 0xffff));
}

void refuse_p_key(World& world, Port& at, bool leaving, const BadKey& packet, u64 times) {
  if (world.node(at).sw && at.ref.port != 0) {
    count_cause(world, at, leaving ? Cause::xmit_constraint : Cause::receive_constraint, times);
    world.traps.bad_key(at, wire::TrapNumber::bad_p_key_at_switch, packet);
  } else if (!leaving) {
    add_violations(at.p_key_violations, times);
    world.traps.bad_key(at, wire::TrapNumber::bad_p_key, packet);
  }
}

}  // namespace

void lose_packet(World& world, Port& at, Loss loss, bool leaving, const BadKey& packet, u64 times) {
  const bool external = world.node(at).sw && at.ref.port != 0;
  switch (loss) {
    case Loss::none:
    case Loss::source_down:
      return;
    case Loss::no_route:
    case Loss::loop:
      if (external) count_cause(world, at, Cause::switch_relay, times);
      return;
    case Loss::link_down:
      return count_cause(world, at, Cause::xmit_discard, times);
    case Loss::bad_pkey:
      return refuse_p_key(world, at, leaving, packet, times);
    case Loss::dropped:  // on a bad link: counted there
      if (leaving) count_cause(world, at, Cause::xmit_discard, times);
      return;
  }
}

void count_cause(World& world, Port& port, Cause cause, u64 times) {
  if (times == 0) return;
  port.tally[index_of(cause)] += times;
  if (cause == Cause::local_integrity) world.traps.link_trouble(port, wire::TrapNumber::link_integrity);
  if (cause == Cause::buffer_overrun) world.traps.link_trouble(port, wire::TrapNumber::buffer_overrun);
  if (cause == Cause::flow_control_watchdog) world.traps.link_trouble(port, wire::TrapNumber::flow_control_watchdog);
}

void count_violations(Port& port, u64 p_keys, u64 q_keys) {
  add_violations(port.p_key_violations, p_keys);
  add_violations(port.q_key_violations, q_keys);
}

void refuse_q_key(World& world, Port& port, const BadKey& packet) {
  count_violations(port, 0, 1);
  world.traps.bad_key(port, wire::TrapNumber::bad_q_key, packet);
}

}  // namespace softib::net
