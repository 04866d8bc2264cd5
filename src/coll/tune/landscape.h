// What a tuner knows of the ranks: where they are, and by what they reach each other. The same on all of them.
#pragma once

#include <string_view>
#include <vector>

#include "base/types.h"

namespace softib::coll {

// How messages go, the best first.
enum class Way : u8 { shm, verbs, tcp };

[[nodiscard]] constexpr std::string_view name_of(Way way) {
  return way == Way::shm ? "shm" : way == Way::verbs ? "verbs" : "tcp";
}

struct Landscape {
  u32 ranks = 1;
  std::vector<u32> hosts;    // of each rank, by any number; empty: one host
  Way within = Way::shm;     // between ranks of a host, the worst one
  Way between = Way::verbs;  // between hosts, the worst one
  // Nodes in the network combine: where SOFTIB_ALGO names that, or for anything.
  enum class Network : u8 { none, named, any } network = Network::none;

  [[nodiscard]] u32 host_count() const;
  [[nodiscard]] u32 most_on_a_host() const;
};

}  // namespace softib::coll
