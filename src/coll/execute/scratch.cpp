#include "coll/execute/scratch.h"

#include <algorithm>
#include <bit>
#include <cstdlib>

namespace softib::coll {

namespace {

class Heap final : public MemorySource {
 public:
  void* allocate(u64 bytes) override { return std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096); }
  void release(void* memory, u64 /*bytes*/) override { std::free(memory); }
};

}  // namespace

std::unique_ptr<MemorySource> heap_memory() { return std::make_unique<Heap>(); }

Scratch::~Scratch() {
  for (u32 shift = 0; shift < free_.size(); ++shift)
    for (std::byte* memory : free_[shift]) source_.release(memory, u64{1} << shift);
}

u32 Scratch::size_class(u64 bytes) {
  return static_cast<u32>(std::bit_width(std::max(bytes, u64{1} << least_shift) - 1));
}

std::byte* Scratch::take(u64 bytes) {
  const u32 shift = size_class(bytes);
  std::vector<std::byte*>& free = free_[shift];
  if (free.empty()) return static_cast<std::byte*>(source_.allocate(u64{1} << shift));
  std::byte* memory = free.back();
  free.pop_back();
  kept_ -= u64{1} << shift;
  return memory;
}

void Scratch::give_back(std::byte* memory, u64 bytes) {
  if (memory == nullptr) return;
  const u32 shift = size_class(bytes);
  if (kept_ + (u64{1} << shift) > most_kept) return source_.release(memory, u64{1} << shift);
  kept_ += u64{1} << shift;
  free_[shift].push_back(memory);
}

}  // namespace softib::coll
