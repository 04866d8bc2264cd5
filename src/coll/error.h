// What goes wrong in a collective, as its callers see it.
#pragma once

#include <string>
#include <tl/expected.hpp>
#include <utility>

#include "base/types.h"

namespace softib::coll {

// The values are ncclResult_t's.
enum class Code : u8 {
  success = 0,
  unhandled_device_error = 1,  // ncclUnhandledCudaError; nothing here gives it
  system_error = 2,            // a system call or a verb failed
  internal_error = 3,
  invalid_argument = 4,
  invalid_usage = 5,  // ranks disagree, or calls came in an order that can't work
  remote_error = 6,   // another rank died, hangs or has left
  in_progress = 7,
};

struct Error {
  Code code = Code::internal_error;
  // One line for people, with rank and host where one is to blame:
  // "rank 3 on host1 ended while rank 0 waited for its part of all_reduce".
  std::string text;
};

template <typename T>
using Outcome = tl::expected<T, Error>;

[[nodiscard]] inline tl::unexpected<Error> refuse(Code code, std::string text) {
  return tl::unexpected<Error>(Error{code, std::move(text)});
}

}  // namespace softib::coll
