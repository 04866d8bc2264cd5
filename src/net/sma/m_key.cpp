// M_Key protection (IBTA vol. 1, 14.2.4).
#include <algorithm>

#include "base/durations.h"
#include "net/sma/sma.h"

namespace softib::net {

namespace {

// Set always needs the key; Get from protection level 2 on.
bool protects(const Port& port, wire::Method method) { return method == wire::Method::set || port.m_key_protect >= 2; }

void count_violation(World& world, Port& port, const Packet& packet) {
  if (port.m_key_violations != 0xffff) ++port.m_key_violations;
  if (port.m_key_lease && !port.lease_end && !port.lease_starts) {
    port.lease_starts = true;
    ++world.leases;
  }
  world.traps.bad_m_key(port, packet);
}

void stop_lease(Port& port) {
  port.lease_starts = false;
  port.lease_end = 0;
}

}  // namespace

KeyCheck check_m_key(World& world, Port& port, const Packet& packet) {
  if (port.m_key == 0) return KeyCheck::fits;
  if (wire::get(packet.mad, wire::smp::m_key) == port.m_key) {
    stop_lease(port);
    return KeyCheck::fits;
  }
  if (!protects(port, wire::method_of(packet.mad))) return KeyCheck::allowed;
  count_violation(world, port, packet);
  return KeyCheck::refused;
}

u64 end_leases(World& world) {
  u64 next = ~u64{0};
  if (world.leases == 0) return next;
  world.leases = 0;
  for (Port& port : world.ports) {
    if (port.lease_starts) port.lease_end = world.now + port.m_key_lease * ns::second;
    port.lease_starts = false;
    if (!port.lease_end) continue;
    if (port.lease_end <= world.now) {
      port.m_key_protect = 0;
      port.lease_end = 0;
      continue;
    }
    ++world.leases;
    next = std::min(next, port.lease_end);
  }
  return next;
}

}  // namespace softib::net
