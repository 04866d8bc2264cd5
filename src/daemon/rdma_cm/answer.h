// An answer to a command: a structure, cut off where the program's room ends.
#pragma once

#include <algorithm>
#include <cstring>
#include <span>

#include "base/types.h"

namespace softib::daemon {

template <typename Response>
[[nodiscard]] u32 answer(std::span<u8> room, const Response& response) {
  const size_t size = std::min(room.size(), sizeof response);
  std::memcpy(room.data(), &response, size);
  return static_cast<u32>(size);
}

}  // namespace softib::daemon
