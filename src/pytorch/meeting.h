// How the ranks of a process group meet: by PyTorch's store they learn the communicator's id, and who is missing.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "coll/communicator.h"
#include "pytorch/version.h"

namespace softib::pytorch {

struct Place {
  int rank = 0;
  int size = 1;
};

// Collective. Throws, with the ranks that did not come in time.
[[nodiscard]] std::unique_ptr<coll::Communicator> meet(::c10d::Store& store, Place place,
                                                       std::chrono::milliseconds timeout);

// Rank 0 waits for all, all wait for rank 0. Throws where somebody didn't come, and names the first rank or all of
// them. `number`: of this barrier, the same on all ranks; `names`: of the ranks.
struct Watch {
  u64 number = 0;
  std::chrono::milliseconds timeout{};
  bool name_all = false;
};
void monitored_barrier(::c10d::Store& store, Place place, const Watch& watch, const std::vector<std::string>& names);

}  // namespace softib::pytorch
