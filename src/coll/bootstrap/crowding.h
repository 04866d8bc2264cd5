// Whether ranks that wait may spin, or are in the way of those they wait for.
#pragma once

#include <span>
#include <vector>

#include "coll/bootstrap/bootstrap.h"

namespace softib::coll {

// Those that the calling thread may run on, a bit each.
[[nodiscard]] std::vector<u64> own_processors();

// Can't the ranks on a rank's machine have a processor each, of those that each of them may run on? Ranks that are
// bound to one each can, and two that are bound to the same one can't, however many the machine has. `others` that they
// wait for are there too, anywhere. The same on all of them.
[[nodiscard]] bool is_crowded(std::span<const Member> members, u32 rank, u32 others = 0);

}  // namespace softib::coll
