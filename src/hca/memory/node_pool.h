// Memory for the book's nodes, from the kernel and never from malloc.
//
// An allocator that the program brought along may call madvise, and so us, while it holds its own locks; if we waited
// for one of those under our lock, both would wait for ever. And our notes must not lie on a page that is being moved.
#pragma once

#include <cstddef>
#include <new>

#include "base/types.h"

namespace softib::hca {

// Equal blocks. Blocks given back are used again; the pool as a whole lives as long as the process.
class BlockPool {
 public:
  explicit BlockPool(size_t block_size) : block_size_((block_size + 15) & ~size_t{15}) {}
  BlockPool(const BlockPool&) = delete;
  BlockPool& operator=(const BlockPool&) = delete;
  ~BlockPool();

  // Makes sure that the next `count` calls of take() succeed.
  bool reserve(size_t count);
  [[nodiscard]] size_t block_size() const { return block_size_; }
  void* take();  // throws std::bad_alloc when there is neither a free block nor memory
  void give(void* block);

 private:
  struct Link {
    Link* next;
  };
  bool grow();

  size_t block_size_;
  Link* free_ = nullptr;
  Link* slabs_ = nullptr;
  size_t free_count_ = 0;
};

// For std::map, which takes its nodes one by one.
template <typename T>
struct PoolAllocator {
  using value_type = T;
  BlockPool* pool;

  explicit PoolAllocator(BlockPool& from) : pool(&from) {}
  template <typename U>
  PoolAllocator(const PoolAllocator<U>& other) : pool(other.pool) {}

  T* allocate(size_t) {
    if (sizeof(T) > pool->block_size()) throw std::bad_alloc();
    return static_cast<T*>(pool->take());
  }
  void deallocate(T* block, size_t) { pool->give(block); }
  template <typename U>
  bool operator==(const PoolAllocator<U>& other) const {
    return pool == other.pool;
  }
};

}  // namespace softib::hca
