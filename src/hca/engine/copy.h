// Copying message bytes so that a reader who polls the last byte has the rest: RDMA programs (perftest, MPI, NCCL-like
// flag protocols) rely on HCAs writing in increasing address order.
#pragma once

#include <atomic>
#include <cstring>

#include "base/types.h"
#include "hca/engine/large_copy.h"

namespace softib::hca {

namespace detail {

template <typename T>
inline void store_one(u8* to, const u8* from) {
  using Anywhere [[gnu::aligned(1), gnu::may_alias]] = T;
  T value;
  std::memcpy(&value, from, sizeof value);
  // One store instruction: where `to` is aligned, a reader sees 2, 4 or 8 bytes whole or not at all.
  *reinterpret_cast<volatile Anywhere*>(to) = value;
}

inline void store_ascending(u8* to, const u8* from, u64 length) {
  while (length >= 8) {
    store_one<u64>(to, from);
    to += 8;
    from += 8;
    length -= 8;
  }
  if (length & 4) {
    store_one<u32>(to, from);
    to += 4;
    from += 4;
  }
  if (length & 2) {
    store_one<u16>(to, from);
    to += 2;
    from += 2;
  }
  if (length & 1) store_one<u8>(to, from);
}

}  // namespace detail

// Stores from..from+length to `to`, the final bytes last. On x86 stores become visible in program order, and long
// copies fence their non-temporal stores. The ranges may overlap only if they are the same (loopback onto itself).
inline void copy_message(u8* to, const u8* from, u64 length, Target target) {
  constexpr u64 small = 16;
  if (length > small) {
    u64 tail = (reinterpret_cast<u64>(to) + length) & 7;
    if (tail == 0) tail = 8;
    if (length >= large_copy_least + tail) [[unlikely]]
      copy_large(to, from, length - tail, target);
    else
      std::memmove(to, from, length - tail);
    std::atomic_thread_fence(std::memory_order_release);
    to += length - tail;
    from += length - tail;
    length = tail;
  }
  detail::store_ascending(to, from, length);
}

}  // namespace softib::hca
