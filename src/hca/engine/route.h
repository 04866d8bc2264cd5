// Whether a packet from one QP can reach another. Until switches forward for themselves, a LID or GID leads straight
// to its port; the seam for routes through switches is port_behind().
#pragma once

#include "hca/engine/context.h"

namespace softib::hca {

// The port that `av` leads to from the active port `from`; 0: nowhere.
u32 port_behind(const Context& context, const ipc::AddressVector& av);

// Both ports exist and are up, and the P_Keys match (IBTA 10.9.1: low 15 bits equal, one of them a full member).
bool can_talk(const Context& context, u32 from_port, u32 to_port);
bool pkeys_match(u16 a, u16 b);

// The peer of a connected QP, if requests of `qp` reach it: alive, of the same type, connected back to `qp`, in the
// same partition, reachable. nullptr otherwise: the request is lost.
ipc::Qp* connected_peer(Context& context, const ipc::Qp& qp);

}  // namespace softib::hca
