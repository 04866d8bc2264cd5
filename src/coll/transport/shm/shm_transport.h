// Messages between ranks of one host through memory that they share. See "Shared memory" in docs/design/collectives.md.
#pragma once

#include <memory>
#include <span>

#include "coll/bootstrap/bootstrap.h"
#include "coll/transport/shm/arena.h"

namespace softib::coll::shm {

struct Options {
  // Large messages of ordinary memory are read from the peer's process where the kernel allows it. Else, or if not
  // wanted, both sides copy, by way of shared memory.
  bool read_peers = true;
};

// Collective among all ranks of the bootstrap; it fails on all if it does on any. `peers`: the other ranks of this
// host, perhaps none; the same set on each of them. `arena`: where Communicator::allocate() gets memory from; it may
// serve several transports.
[[nodiscard]] Outcome<std::unique_ptr<Transport>> make_transport(Bootstrap& bootstrap, std::shared_ptr<Arena> arena,
                                                                 std::span<const u32> peers,
                                                                 const Options& options = {});

}  // namespace softib::coll::shm
