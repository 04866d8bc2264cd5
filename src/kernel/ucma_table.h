// The commands of rdma_ucm: how long their structures are and where they say where the answer goes.
#pragma once

#include <optional>

#include "abi/rdma_cm.h"

namespace softib::kernel {

struct UcmaRow {
  u32 command;
  const char* name;
  u16 request_size;    // that is read, whatever the header says
  u16 least_request;   // of those that grew over time: the header's length counts, from here on; 0: of the others
  u16 least_response;  // less room than this is ENOSPC; 0: no answer
  u16 response_size;   // of the newest version
  u16 response_at;     // in the request: the answer's address
};

// EINVAL: no command; ENOSYS: one that nobody carries out.
[[nodiscard]] Result<const UcmaRow*> find_ucma_row(u32 command);

}  // namespace softib::kernel
