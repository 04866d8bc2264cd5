#include "ipoib/buffers.h"

#include <algorithm>
#include <numeric>

namespace softib::ipoib {

namespace {

constexpr u64 align_up(u64 size, u64 to) { return (size + to - 1) / to * to; }

}  // namespace

Result<Slots> Slots::make(ibv_pd* pd) {
  constexpr u64 line = 64;
  constexpr u64 data = align_up(Slot::packet_at + room, line);
  constexpr u64 headers = most_segments * Cutter::header_room;
  auto region = Region::make(pd, (data + headers) * count);
  if (!region) return fail(region.error());
  Slots slots;
  slots.region_ = std::move(*region);
  u8* at = slots.region_.data();
  for (u32 i = 0; i < count; ++i, at += data + headers) {
    Slot slot;
    slot.number = i;
    slot.data = at;
    slot.headers = at + data;
    slots.slots_.push_back(slot);
    slots.free_.push_back(count - 1 - i);
  }
  return slots;
}

// The one that was used last: its memory is in the cache.
Slot& Slots::take() {
  const u32 number = free_.back();
  free_.pop_back();
  return slots_[number];
}

Result<Receives> Receives::make(ibv_pd* pd, u32 count, u32 size) {
  constexpr u64 line = 64;
  Receives receives;
  receives.count_ = count;
  receives.size_ = size;
  receives.stride_ = align_up(size, line);
  auto region = Region::make(pd, receives.stride_ * count);
  if (!region) return fail(region.error());
  receives.region_ = std::move(*region);
  receives.give_back_all();
  return receives;
}

void Receives::give_back_all() {
  idle_.resize(count_);
  std::iota(idle_.begin(), idle_.end(), u64{0});
}

template <typename Post>
void Receives::post_chain(u64 tag, Post post) {
  constexpr u32 batch = 64;
  ibv_recv_wr requests[batch];
  ibv_sge parts[batch];
  while (!idle_.empty()) {
    const u32 some = static_cast<u32>(std::min<std::size_t>(batch, idle_.size()));
    for (u32 i = 0; i < some; ++i) {
      const u64 number = idle_[idle_.size() - some + i];
      parts[i] = {reinterpret_cast<u64>(buffer(number)), size_, region_.key()};
      requests[i] = {number | tag, i + 1 < some ? &requests[i + 1] : nullptr, &parts[i], 1};
    }
    ibv_recv_wr* bad = nullptr;
    const bool whole = post(requests, &bad) == 0;
    const u32 taken = whole ? some : static_cast<u32>(bad - requests);
    idle_.erase(idle_.end() - some, idle_.end() - (some - taken));
    if (!whole) return;
  }
}

void Receives::post(ibv_qp* qp, u64 tag) {
  post_chain(tag, [qp](ibv_recv_wr* requests, ibv_recv_wr** bad) { return ::ibv_post_recv(qp, requests, bad); });
}

void Receives::post(ibv_srq* srq, u64 tag) {
  post_chain(tag, [srq](ibv_recv_wr* requests, ibv_recv_wr** bad) { return ::ibv_post_srq_recv(srq, requests, bad); });
}

}  // namespace softib::ipoib
