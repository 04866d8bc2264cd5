// An aggregation tree for ranks that are threads of one process: members' contributions meet in memory, at times that a
// random generator chooses, in the order that all members expect.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "coll/innetwork/tree.h"

namespace softib::coll::test {

// Where the trees of all members meet.
struct MemoryTreeHub {
  struct Meeting {
    std::vector<std::vector<std::byte>> given;  // by member
    std::vector<bool> gives;
    u32 missing = 0;
    u32 unread = 0;
  };
  std::mutex mutex;
  std::map<u64, Meeting> meetings;  // by the number of the aggregation
};

[[nodiscard]] std::unique_ptr<Tree> make_memory_tree(std::shared_ptr<MemoryTreeHub> hub, std::vector<u32> members,
                                                     u32 rank, u32 ranks, u64 seed);

}  // namespace softib::coll::test
