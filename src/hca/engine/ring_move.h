// Moving what waits in one ring to another of a different size (resize of CQs and SRQs).
#pragma once

#include <algorithm>
#include <cstring>

#include "hca/engine/ring.h"

namespace softib::hca {

// Copies the entries from consumer to producer, to the start of `to`; gives the new producer index. EINVAL: no room,
// or no element of any ring is that large.
inline Result<u32> move_entries(const Ring& from, Ring& to, u32 log2_size) {
  u32 first = from.consumer();
  u32 count = (from.producer() - first) & from.mask();
  if (count > to.mask()) return fail(EINVAL);
  if (1ULL << std::min(log2_size, 63U) > limits::max_element_bytes) return fail(EINVAL);
  for (u32 i = 0; i < count; ++i)
    std::memcpy(to.at<u8>(i, log2_size), from.at<u8>(first + i, log2_size), 1ULL << log2_size);
  to.set_consumer(0);
  to.set_producer(count);
  return count;
}

}  // namespace softib::hca
