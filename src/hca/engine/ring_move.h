// Moving what waits in one ring to another of a different size (resize of CQs and SRQs).
#pragma once

#include <cstring>

#include "hca/engine/ring.h"

namespace softib::hca {

// Copies the entries from consumer to producer, to the start of `to`; gives the new producer index. EINVAL: no room.
inline Result<u32> move_entries(const Ring& from, Ring& to, u32 log2_size) {
  u32 producer = from.producer();
  u32 count = (producer - from.consumer()) & from.mask();
  if (count > to.mask()) return fail(EINVAL);
  u32 at = 0;
  for (u32 i = from.consumer(); i != producer; i = from.next(i), ++at)
    std::memcpy(to.at<u8>(at, log2_size), from.at<u8>(i, log2_size), 1ULL << log2_size);
  to.set_consumer(0);
  to.set_producer(at);
  return at;
}

}  // namespace softib::hca
