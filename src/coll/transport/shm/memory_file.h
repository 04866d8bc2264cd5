// Memory that other processes can map: files without a name, which go with their last user however that ends.
#pragma once

#include <optional>

#include "base/fd.h"
#include "base/types.h"

namespace softib::coll::shm {

// A mapping of shared memory, readable and writable.
class Mapping {
 public:
  Mapping() = default;
  // `alignment`: of the address, a power of two of at least a page.
  [[nodiscard]] static Result<Mapping> of(int fd, u64 offset, u64 bytes, u64 alignment = 4096);
  Mapping(Mapping&& other) noexcept;
  Mapping& operator=(Mapping&& other) noexcept;
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  ~Mapping();

  [[nodiscard]] std::byte* data() const { return data_; }
  [[nodiscard]] u64 size() const { return bytes_; }

 private:
  std::byte* data_ = nullptr;
  u64 bytes_ = 0;
};

// Of a fixed size: sealed, so that no use of a mapping can fault because another process made it smaller. Pages take
// memory once they are touched.
[[nodiscard]] Result<Fd> make_memory_file(const char* name, u64 bytes);
// The size of a file that somebody else gave; nothing if it might shrink.
[[nodiscard]] std::optional<u64> sealed_size(int fd);

}  // namespace softib::coll::shm
