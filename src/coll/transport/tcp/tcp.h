// A transport by TCP: one connection for each peer, over any network that there is.
#pragma once

#include "coll/bootstrap/bootstrap.h"
#include "coll/environment.h"

namespace softib::coll::tcp {

// Collective among all ranks of the bootstrap: connects with `peers`, of which each has this rank among its own.
// Listens at the address where this rank's bootstrap is reached.
[[nodiscard]] Outcome<std::unique_ptr<Transport>> create(Bootstrap& bootstrap, const Environment& environment,
                                                         std::span<const u32> peers);

}  // namespace softib::coll::tcp
