#include "kernel/buffers.h"

namespace softib::kernel {

Result<void> Input::expect_zero(UserMemory& memory, u32 offset) const {
  char piece[256];
  for (u32 at = offset; at < size_;) {
    u32 step = std::min<u32>(size_ - at, sizeof piece);
    if (auto done = copy(memory, piece, at, step); !done) return done;
    if (std::any_of(piece, piece + step, [](char byte) { return byte != 0; })) return fail(EOPNOTSUPP);
    at += step;
  }
  return {};
}

Result<void> Output::copy_or_zero(UserMemory& memory, const void* from, u32 length) const {
  if (length < size) {
    if (auto done = memory.clear(address + length, size - length); !done) return done;
  }
  return copy(memory, from, length);
}

}  // namespace softib::kernel
