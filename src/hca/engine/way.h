// What stands behind ipc::AddressVector::way. The list lies in memory that any process can write: whatever it says, a
// view ends within the arena and within what a way can have.
#pragma once

#include <algorithm>
#include <atomic>
#include <span>

#include "ipc/segment.h"

namespace softib::hca {

class WayView {
 public:
  WayView(const ipc::Segment& segment, ipc::AddressVector& av) {
    const u64 offset = u64{std::atomic_ref(av.way).load(std::memory_order_relaxed)} * ipc::page_size;
    if (offset == 0 || offset + sizeof(ipc::Way) > ipc::arena_size) return;
    const u8* at = segment.arena + offset;
    const auto& way = *reinterpret_cast<const ipc::Way*>(at);
    std::span<const u32> rest(reinterpret_cast<const u32*>(at + sizeof way),
                              std::min<u64>((ipc::arena_size - offset - sizeof way) / sizeof(u32), longest));
    ports_ = take(rest, way.port_count);
    there_ = take(rest, way.there_count);
    back_ = take(rest, way.back_count);
  }

  [[nodiscard]] std::span<const u32> ports() const { return ports_; }  // indices, ascending
  [[nodiscard]] std::span<const u32> there() const { return there_; }  // links
  // Multicast: for each port, the number of lossy links beyond the first, and these; or nothing.
  [[nodiscard]] std::span<const u32> back() const { return back_; }

 private:
  // A way has 64 hops at most; multicast has a few lossy links for each port.
  static constexpr u64 longest = u64{4} * ipc::max_ports + 128;

  static std::span<const u32> take(std::span<const u32>& rest, u32 count) {
    const auto taken = rest.first(std::min<size_t>(count, rest.size()));
    rest = rest.subspan(taken.size());
    return taken;
  }

  std::span<const u32> ports_;
  std::span<const u32> there_;
  std::span<const u32> back_;
};

}  // namespace softib::hca
