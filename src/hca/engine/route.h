// Whether a packet from one QP can reach another. Where an address leads was found by softibd, which walks the
// switches' tables; the answer stands in the address vector and is good until route_epoch moves on.
#pragma once

#include "hca/engine/context.h"

namespace softib::hca {

// The port that the address vector of a QP or AH leads to; 0: nowhere. Asks softibd when routes have changed.
u32 port_behind(Context& context, ipc::Qp& qp);
u32 port_behind(Context& context, u32 ah_index, ipc::Ah& ah);

// Both ports exist and are up.
bool can_talk(const Context& context, u32 from_port, u32 to_port);

// The peer of a connected QP, if requests of `qp` reach it: alive, of the same type, connected back to `qp`, in the
// same partition, reachable. nullptr otherwise: the request is lost.
ipc::Qp* connected_peer(Context& context, ipc::Qp& qp);
// Whether what the peer sends reaches `qp`.
bool answers_reach(Context& context, const ipc::Qp& qp, ipc::Qp& peer);

}  // namespace softib::hca
