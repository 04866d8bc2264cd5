// How a sender stores what it writes to its place in a peer's arena: past its caches, or by way of them. Past them is
// quicker where that memory comes anew each time; where the peer's part was just read to be combined with this rank's,
// as in a collective in place, its lines are in the cache already.
#pragma once

#include <cstddef>

#include "base/quicker.h"
#include "coll/kernels/kernels.h"
#include "coll/transport/shm/layout.h"

namespace softib::coll::shm {

// Of one rank, for all its peers.
class StoreChoices {
 public:
  // A piece of a message of so many bytes.
  void write(u64 message_bytes, std::byte* to, const std::byte* from, u64 bytes) {
    choices_.of(message_bytes).run(bytes, [&](Way way) {
      kernels::copy(to, from, bytes, way == Way::streaming ? kernels::Stores::streaming : kernels::Stores::cached);
    });
  }

 private:
  enum class Way : u8 { streaming, cached };

  QuickerByLength<Way, push_least, 14> choices_;
};

}  // namespace softib::coll::shm
