#include "hca/engine/route.h"

#include <atomic>

#include "hca/engine/responder.h"
#include "wire/pkey.h"

namespace softib::hca {

namespace {

u32 look_up(Context& context, ipc::ObjectKind kind, u32 index, ipc::AddressVector& av) {
  const u32 epoch = context.segment.header.route_epoch.load(std::memory_order_acquire);
  if (std::atomic_ref(av.route_epoch).load(std::memory_order_acquire) == epoch) [[likely]]
    return std::atomic_ref(av.port).load(std::memory_order_relaxed);
  return context.routes.find(kind, index);
}

}  // namespace

u32 port_behind(Context& context, ipc::Qp& qp) { return look_up(context, ipc::ObjectKind::qp, qp.qpn, qp.av); }

u32 port_behind(Context& context, u32 ah_index, ipc::Ah& ah) {
  return look_up(context, ipc::ObjectKind::ah, ah_index, ah.av);
}

bool can_talk(const Context& context, u32 from_port, u32 to_port) {
  if (from_port == 0 || to_port == 0) return false;
  return context.port(from_port).state.load(std::memory_order_relaxed) == ipc::PortState::active &&
         context.port(to_port).state.load(std::memory_order_relaxed) == ipc::PortState::active;
}

ipc::Qp* connected_peer(Context& context, ipc::Qp& qp) {
  ipc::Qp* peer = context.qp(qp.dest_qpn);
  if (!peer || peer->type != qp.type || peer->dest_qpn != qp.qpn) return nullptr;
  if (!accepts_requests(peer->state.load(std::memory_order_acquire))) return nullptr;
  u32 there = port_behind(context, qp);
  if (there != peer->port || !can_talk(context, qp.port, there)) return nullptr;
  if (wire::keys_match(qp.pkey, peer->pkey)) return peer;
  context.violations.note(ipc::KeyViolation::p_key, context.port(there), qp, *peer, qp.pkey);
  return nullptr;
}

bool answers_reach(Context& context, const ipc::Qp& qp, ipc::Qp& peer) { return port_behind(context, peer) == qp.port; }

}  // namespace softib::hca
