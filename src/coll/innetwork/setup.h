// How the ranks of a communicator get an aggregation tree: one rank of each host has a queue pair for it, the first
// rank asks the aggregation manager, and each step is followed by an all-gather, so that all of them have it or none.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "coll/bootstrap/bootstrap.h"
#include "coll/environment.h"
#include "coll/innetwork/post.h"
#include "coll/innetwork/tree.h"

namespace softib::coll::innetwork {

// Collective. nullptr: this rank is not the first one of its host, but the tree is there. Errors say on all ranks alike
// why there is none.
[[nodiscard]] Outcome<std::unique_ptr<Tree>> make_tree(Bootstrap& bootstrap, const Environment& environment);

// The aggregation manager of the subnet, to be asked from a port; both wait, some seconds at most. find() makes sure
// that it is alive.
class ManagerDesk {
 public:
  [[nodiscard]] static Outcome<std::unique_ptr<ManagerDesk>> find(const OpenPort& port, const PairSettings& settings);
  // Its answer; what it refuses is an error in its words.
  [[nodiscard]] Outcome<Words> ask(const Words& words, std::chrono::seconds patience = std::chrono::seconds(15));
  [[nodiscard]] Correspondent address() const { return manager_; }

 private:
  std::unique_ptr<Post> post_;
  Correspondent manager_;
};

}  // namespace softib::coll::innetwork
