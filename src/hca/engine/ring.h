// Views of the rxe rings in the segment's arena. Indices are masked with the mask of softibd's record, never with the
// ring's own: the ring belongs to the program.
//
// The record lies where any process can write it. Whatever it says, a view begins at a page of the arena and its
// elements within ring_reach of that page: a ring placed at the arena's end may lead into the room behind the segment,
// which a session keeps for that (session.cpp), and not into other memory of the process.
#pragma once

#include <atomic>
#include <bit>

#include "abi/rxe.h"
#include "hca/limits.h"
#include "ipc/segment.h"

namespace softib::hca {

class Ring {
 public:
  Ring(ipc::Segment& segment, u64 offset, u32 mask)
      : head_(reinterpret_cast<rxe_queue_buf*>(segment.arena + (offset & offset_mask))), mask_(mask) {}

  [[nodiscard]] u32 mask() const { return mask_; }
  [[nodiscard]] u32 next(u32 index) const { return (index + 1) & mask_; }

  [[nodiscard]] u32 producer() const { return load(head_->producer_index); }
  [[nodiscard]] u32 consumer() const { return load(head_->consumer_index); }
  void set_producer(u32 index) { store(head_->producer_index, index); }
  void set_consumer(u32 index) { store(head_->consumer_index, index); }

  // `log2_size` is the element size of softibd's record.
  template <typename T>
  [[nodiscard]] T* at(u32 index, u32 log2_size) const {
    u64 place = (static_cast<u64>(index & mask_) << (log2_size & 63)) & (limits::max_ring_bytes - 1);
    return reinterpret_cast<T*>(reinterpret_cast<u8*>(head_) + abi::ring_head_size + place);
  }

  void prefetch_producer_for_write() const { __builtin_prefetch(&head_->producer_index, 1); }

 private:
  [[nodiscard]] u32 load(u32& index) const {
    return std::atomic_ref<u32>(index).load(std::memory_order_acquire) & mask_;
  }
  static void store(u32& index, u32 value) { std::atomic_ref<u32>(index).store(value, std::memory_order_release); }

  static constexpr u64 offset_mask = (ipc::arena_size - 1) & ~(ipc::page_size - 1);

  rxe_queue_buf* head_;
  u32 mask_;
};

// How far from its first page a view can lead, the largest element included.
inline constexpr u64 ring_reach = limits::max_ring_bytes + ipc::page_size;

// Element size of a receive ring whose work requests have up to `max_sge` SGEs.
constexpr u32 receive_log2_size(u32 max_sge) {
  return static_cast<u32>(std::bit_width(sizeof(abi::RecvWqe) + u64{max_sge} * sizeof(rxe_sge) - 1));
}

inline constexpr u32 cqe_log2_size = 6;  // ib_uverbs_wc is 48 bytes; softibd makes CQ rings with 64-byte elements

}  // namespace softib::hca
