#include "hca/engine/route.h"

#include <atomic>

#include "hca/engine/responder.h"

namespace softib::hca {

u32 port_behind(const Context& context, const ipc::AddressVector& av) {
  if (av.dlid == 0) return av.port;  // Ethernet: resolved by GID when the address was made
  if (av.dlid >= ipc::lid_count) return 0;
  return context.segment.port_of_lid[av.dlid].load(std::memory_order_relaxed);
}

bool can_talk(const Context& context, u32 from_port, u32 to_port) {
  if (from_port == 0 || to_port == 0) return false;
  return context.port(from_port).state.load(std::memory_order_relaxed) == ipc::PortState::active &&
         context.port(to_port).state.load(std::memory_order_relaxed) == ipc::PortState::active;
}

bool pkeys_match(u16 a, u16 b) {
  constexpr u16 member = 0x8000;
  return ((a ^ b) & ~member) == 0 && ((a | b) & member) && (a & ~member);
}

ipc::Qp* connected_peer(Context& context, const ipc::Qp& qp) {
  ipc::Qp* peer = context.qp(qp.dest_qpn);
  if (!peer || peer->type != qp.type || peer->dest_qpn != qp.qpn) return nullptr;
  if (!accepts_requests(peer->state.load(std::memory_order_acquire))) return nullptr;
  u32 there = port_behind(context, qp.av);
  if (there != peer->port || !can_talk(context, qp.port, there)) return nullptr;
  if (port_behind(context, peer->av) != qp.port) return nullptr;
  if (pkeys_match(qp.pkey, peer->pkey)) return peer;
  context.port(there).pkey_violations.fetch_add(1, std::memory_order_relaxed);
  return nullptr;
}

}  // namespace softib::hca
