#include "hca/memory/node_pool.h"

#include "hca/memory/raw.h"

namespace softib::hca {

namespace {
constexpr size_t slab_size = size_t{64} << 10;
}

BlockPool::~BlockPool() {
  while (slabs_) {
    Link* slab = slabs_;
    slabs_ = slab->next;
    raw::unmap(reinterpret_cast<u64>(slab), slab_size);
  }
}

bool BlockPool::reserve(size_t count) {
  while (free_count_ < count) {
    if (!grow()) return false;
  }
  return true;
}

void* BlockPool::take() {
  if (!free_ && !grow()) throw std::bad_alloc();
  Link* block = free_;
  free_ = block->next;
  --free_count_;
  return block;
}

void BlockPool::give(void* block) {
  free_ = new (block) Link{free_};
  ++free_count_;
}

bool BlockPool::grow() {
  void* memory = raw::map(0, slab_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS);
  if (memory == MAP_FAILED) return false;
  auto* bytes = static_cast<std::byte*>(memory);
  slabs_ = new (bytes) Link{slabs_};
  for (size_t at = block_size_; at + block_size_ <= slab_size; at += block_size_) give(bytes + at);
  return true;
}

}  // namespace softib::hca
