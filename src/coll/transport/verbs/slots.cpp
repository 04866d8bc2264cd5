#include "coll/transport/verbs/slots.h"

#include <sys/mman.h>

#include <cerrno>

namespace softib::coll::verbs {

Slots::~Slots() {
  regions_.clear();
  if (memory_ != nullptr) munmap(memory_, mapped_);
}

bool Slots::make(std::span<const Device> devices, u32 count, u32 bytes, int access) {
  constexpr std::size_t page = 4096;
  mapped_ = (std::size_t{count} * bytes + page - 1) / page * page;
  if (mapped_ == 0) mapped_ = page;
  void* memory = mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return false;
  memory_ = static_cast<std::byte*>(memory);
  for (const Device& device : devices) {
    RegionOwner region(ibv_reg_mr(device.domain.get(), memory_, mapped_, access));
    if (!region) {
      const int error = errno;
      regions_.clear();
      munmap(memory_, mapped_);
      memory_ = nullptr;
      errno = error;
      return false;
    }
    regions_.push_back(std::move(region));
  }
  count_ = count;
  bytes_ = bytes;
  free_.reserve(count);
  for (u32 slot = count; slot > 0; slot--) free_.push_back(static_cast<u16>(slot - 1));
  return true;
}

std::optional<u16> Slots::take() {
  if (free_.empty()) return std::nullopt;
  const u16 slot = free_.back();
  free_.pop_back();
  return slot;
}

}  // namespace softib::coll::verbs
