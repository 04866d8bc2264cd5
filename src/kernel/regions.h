// The memory regions that this process registered on one command file: which pages each holds.
#pragma once

#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

#include "base/types.h"

namespace softib::kernel {

struct Region {
  u64 address = 0;
  u64 length = 0;
  bool pinned = false;  // false: on demand, nothing is held
};

class RegionRegistry {
 public:
  // Gives what stood under the same id before: a region that another process of the context deregistered.
  std::optional<Region> put(u32 id, const Region& region) {
    std::lock_guard guard(mutex_);
    auto [slot, fresh] = regions_.try_emplace(id, region);
    if (fresh) return std::nullopt;
    return std::exchange(slot->second, region);
  }

  std::optional<Region> find(u32 id) const {
    std::lock_guard guard(mutex_);
    auto slot = regions_.find(id);
    if (slot == regions_.end()) return std::nullopt;
    return slot->second;
  }

  std::optional<Region> take(u32 id) {
    std::lock_guard guard(mutex_);
    auto slot = regions_.extract(id);
    if (slot.empty()) return std::nullopt;
    return slot.mapped();
  }

  std::vector<Region> take_all() {
    std::lock_guard guard(mutex_);
    std::vector<Region> all;
    all.reserve(regions_.size());
    for (const auto& [id, region] : regions_) all.push_back(region);
    regions_.clear();
    return all;
  }

 private:
  mutable std::mutex mutex_;
  std::unordered_map<u32, Region> regions_;
};

// Rings whose offsets were handed out and that the provider has not mapped yet.
class PendingRings {
 public:
  void put(u64 offset, u64 size) {
    std::lock_guard guard(mutex_);
    sizes_[offset] = size;
  }

  // Takes the ring out when it is at least `length` long.
  bool take(u64 offset, u64 length) {
    std::lock_guard guard(mutex_);
    auto slot = sizes_.find(offset);
    if (slot == sizes_.end() || length > slot->second) return false;
    sizes_.erase(slot);
    return true;
  }

  void drop(u64 offset) {
    std::lock_guard guard(mutex_);
    sizes_.erase(offset);
  }

 private:
  std::mutex mutex_;
  std::unordered_map<u64, u64> sizes_;
};

}  // namespace softib::kernel
