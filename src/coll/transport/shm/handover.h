// Ranks of a host give each other the descriptors of their memory files, through sockets of the abstract namespace:
// these work between pid namespaces and leave nothing behind, however the ranks end.
#pragma once

#include <array>
#include <span>
#include <vector>

#include "base/fd.h"
#include "coll/bootstrap/bootstrap.h"

namespace softib::coll::shm {

using Key = std::array<u64, 2>;

// What a rank gives to one peer.
struct Gift {
  int channels = -1;
  int arena = -1;
  u32 channel = 0;  // the one in `channels` that the peer writes to
};

// What it got from one.
struct Received {
  Fd channels;
  Fd arena;
  u32 channel = 0;
  i32 process = 0;  // in this process' pid namespace; 0 if it isn't there
  Key key{};        // random, and at key_address in the peer's memory as long as its key lives
  u64 key_address = 0;
};

// Collective among all ranks of the bootstrap, those without peers too; it fails on all if it does on any. `gifts` and
// the result are in the order of `peers`. `key` and its address are told to all. `trouble`: what went wrong here
// before, if anything; then it fails, in step with the others.
[[nodiscard]] Outcome<std::vector<Received>> hand_over(Bootstrap& bootstrap, std::span<const u32> peers,
                                                       std::span<const Gift> gifts, const Key& key,
                                                       std::string trouble = {});

[[nodiscard]] bool random_key(Key& key);

}  // namespace softib::coll::shm
