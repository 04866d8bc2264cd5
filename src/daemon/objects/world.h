// What all object managers share.
#pragma once

#include <algorithm>
#include <cstring>
#include <span>

#include "daemon/arena.h"
#include "daemon/limbo.h"
#include "daemon/routes.h"
#include "daemon/watcher.h"
#include "hca/rules/ring_layout.h"
#include "ipc/segment.h"

namespace softib::daemon {

struct World {
  ipc::Segment& segment;
  Arena& arena;
  Limbo& limbo;
  Routes& routes;
  Watcher& watcher;
  u32 last_generation = 0;

  // Never 0, and not one that was given lately.
  [[nodiscard]] u32 new_generation() {
    if (++last_generation == 0) ++last_generation;
    return last_generation;
  }

  // Gives pages back once nobody can be at work in them.
  void free_later(u64 offset) {
    if (offset) limbo.add([this, offset] { (void)arena.free(offset); });
  }

  // Any process can write the segment: what is read from it never serves as an index or a length as it stands.
  [[nodiscard]] ipc::Port& port(u32 index) const { return segment.ports[index & (ipc::max_ports - 1)]; }
  [[nodiscard]] ipc::Device& device(u32 index) const { return segment.devices[index & (ipc::max_devices - 1)]; }
  [[nodiscard]] std::span<const ipc::Port> ports_of(u32 device_index) const {
    const ipc::Device& record = device(device_index);
    u32 first = record.first_port & (ipc::max_ports - 1);
    return {&segment.ports[first], std::min(record.port_count, ipc::max_ports - first)};
  }
  // Index of a device's port; number is from 1.
  [[nodiscard]] u32 port_index(u32 device_index, u8 number) const {
    return (device(device_index).first_port + number - 1) & (ipc::max_ports - 1);
  }
  [[nodiscard]] u16 pkey_at(u32 port_index, u16 index) const {
    return port(port_index).pkeys[index & (ipc::max_pkeys_per_port - 1)];
  }

  // A record of the segment starts from zeroes; its atomics are trivial there.
  template <typename Record>
  static void wipe(Record& record) {
    std::memset(static_cast<void*>(&record), 0, sizeof record);
  }

  static void raise_limit(std::atomic<u32>& limit, u32 index) {
    if (limit.load(std::memory_order_relaxed) <= index) limit.store(index + 1, std::memory_order_release);
  }
};

// A ring in the arena.
struct RingBlock {
  u64 offset = 0;
  u32 bytes = 0;  // rounded up to pages
};

// Places a ring with its head filled in. ENOMEM.
[[nodiscard]] Result<RingBlock> place_ring(World& world, const hca::RingLayout& layout);

// Ends the counting of the events that an object's reader was given, and tells how many they were: whoever reads a
// record of it from now on drops it (shim/events.cpp).
inline u32 close_count(std::atomic<u32>& reported) {
  return reported.fetch_or(ipc::events_closed) & ~ipc::events_closed;
}

}  // namespace softib::daemon
