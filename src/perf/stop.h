// How a benchmark ends. There is one reaction to anything that goes wrong in the middle of it: say so and end. So what
// goes wrong is thrown here, from whatever depth, and caught once for each rank; see rank.cpp.
#pragma once

#include <string>
#include <utility>

#include "coll/error.h"

namespace softib::perf {

// Exit codes of nccl-tests.
enum class Exit : u8 {
  success = 0,
  internal_error = 1,
  library_error = 3,
  timeout = 4,
  not_implemented = 5,
  invalid_usage = 6,
  wrong_results = 7,  // or a bandwidth below what was asked for
};

[[nodiscard]] constexpr int to_int(Exit code) { return static_cast<int>(code); }

struct Stop {
  Exit code = Exit::internal_error;
  std::string text;  // one line
};

// The value, or the end.
template <typename T>
T must(coll::Outcome<T>&& outcome) {
  if (!outcome) throw Stop{Exit::library_error, std::move(outcome.error().text)};
  if constexpr (!std::is_void_v<T>) return std::move(*outcome);
}

}  // namespace softib::perf
