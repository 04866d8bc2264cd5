// Who this process is among the members.
#pragma once

#include "coll/bootstrap/bootstrap.h"
#include "coll/environment.h"

namespace softib::coll {

// Rank and address are left to the caller.
[[nodiscard]] Member own_identity(const Environment& environment);

// Equal if all of these are.
[[nodiscard]] u64 host_key_of(std::string_view host, std::string_view boot, u64 shm_device, u64 shm_root);

}  // namespace softib::coll
