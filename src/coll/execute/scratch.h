// Memory that runs borrow: taken once from wherever the communicator's memory comes from, and kept for the next one.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "coll/error.h"

namespace softib::coll {

// Where memory for messages comes from: an arena that peers can read, or the heap.
class MemorySource {
 public:
  virtual ~MemorySource() = default;
  // At least 64-byte aligned. nullptr: none left.
  [[nodiscard]] virtual void* allocate(u64 bytes) = 0;
  virtual void release(void* memory, u64 bytes) = 0;
};

[[nodiscard]] std::unique_ptr<MemorySource> heap_memory();

class Scratch {
 public:
  explicit Scratch(MemorySource& source) : source_(source) {}
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch();

  // nullptr only where there is no memory left; 0 bytes give something too.
  [[nodiscard]] std::byte* take(u64 bytes);
  // `bytes` as taken.
  void give_back(std::byte* memory, u64 bytes);

 private:
  static constexpr u64 least_shift = 12;
  static constexpr u64 most_kept = u64{256} << 20;
  static u32 size_class(u64 bytes);

  MemorySource& source_;
  std::array<std::vector<std::byte*>, 64> free_{};  // by power of two
  u64 kept_ = 0;
};

}  // namespace softib::coll
