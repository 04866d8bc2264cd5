// Registered memory in pieces of one size.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "coll/transport/verbs/devices.h"

namespace softib::coll::verbs {

class Slots {
 public:
  Slots() = default;
  Slots(const Slots&) = delete;
  Slots& operator=(const Slots&) = delete;
  ~Slots();

  // `bytes` a multiple of 64. False with errno set; then there are no slots.
  [[nodiscard]] bool make(std::span<const Device> devices, u32 count, u32 bytes, int access);

  [[nodiscard]] u32 count() const { return count_; }
  [[nodiscard]] u32 slot_bytes() const { return bytes_; }
  [[nodiscard]] std::byte* at(u32 slot) const { return memory_ + std::size_t{slot} * bytes_; }
  [[nodiscard]] u32 local_key(u32 device) const { return regions_[device]->lkey; }
  [[nodiscard]] u32 remote_key(u32 device) const { return regions_[device]->rkey; }

  [[nodiscard]] u32 free() const { return static_cast<u32>(free_.size()); }
  [[nodiscard]] std::optional<u16> take();
  void give_back(u16 slot) { free_.push_back(slot); }

 private:
  std::byte* memory_ = nullptr;
  std::size_t mapped_ = 0;
  u32 count_ = 0;
  u32 bytes_ = 0;
  std::vector<RegionOwner> regions_;  // one for each device
  std::vector<u16> free_;             // the last one given back comes first: it may still be in a cache
};

}  // namespace softib::coll::verbs
