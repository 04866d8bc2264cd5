#include "perf/buffers.h"

#include <sys/mman.h>

#include <cstring>

#include "base/error_text.h"
#include "perf/stop.h"

namespace softib::perf {

Buffers::Buffers(coll::Communicator& communicator, const Options& options, u64 bytes)
    : communicator_(communicator), bytes_(bytes), memory_(options.memory) {
  try {
    send_ = take(memory_, bytes);
    receive_ = take(memory_, bytes);
    if (options.checks != 0) expected_ = take(Memory::ordinary, bytes);
  } catch (...) {
    give_back();
    throw;
  }
}

Buffers::~Buffers() { give_back(); }

// Written to at once: the first touch of a page isn't what is to be measured.
std::byte* Buffers::take(Memory memory, u64 bytes) {
  void* taken = nullptr;
  if (memory == Memory::reachable) {
    taken = must(communicator_.allocate(bytes));
  } else {
    taken = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (taken == MAP_FAILED) throw Stop{Exit::internal_error, "no memory for buffers: " + error_text()};
  }
  std::memset(taken, 0, bytes);
  return static_cast<std::byte*>(taken);
}

void Buffers::give_back() {
  const auto release = [&](std::byte* memory, Memory kind) {
    if (memory == nullptr) return;
    if (kind == Memory::reachable) communicator_.free_memory(memory);
    if (kind == Memory::ordinary) ::munmap(memory, bytes_);
  };
  release(send_, memory_);
  release(receive_, memory_);
  release(expected_, Memory::ordinary);
}

}  // namespace softib::perf
