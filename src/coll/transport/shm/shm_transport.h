// Messages between ranks of one host through memory that they share. See "Shared memory" in docs/design/collectives.md.
#pragma once

#include <memory>
#include <optional>
#include <span>

#include "coll/bootstrap/bootstrap.h"
#include "coll/transport/shm/arena.h"

namespace softib::coll::shm {

struct Options {
  // Long messages of ordinary memory: whether the receiver reads them in the sender's process, where the kernel allows
  // that, or both sides copy at once, by way of chunks. By default the former if there are more ranks on this host than
  // processors, else what turns out to be quicker.
  std::optional<bool> read_peers;
};

// Collective among all ranks of the bootstrap; it fails on all if it does on any. `peers`: the other ranks of this
// host, perhaps none; the same set on each of them. `arena`: where Communicator::allocate() gets memory from; it may
// serve several transports.
[[nodiscard]] Outcome<std::unique_ptr<Transport>> make_transport(Bootstrap& bootstrap, std::shared_ptr<Arena> arena,
                                                                 std::span<const u32> peers,
                                                                 const Options& options = {});

}  // namespace softib::coll::shm
