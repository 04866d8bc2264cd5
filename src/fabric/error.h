// The errors of what a person asked for: files, commands, faults. Calls between programs use base/types.h's Errno.
#pragma once

#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <utility>

namespace softib::fabric {

struct Error {
  std::string text;  // one line for people: "lab.yaml:7: unknown key 'speeed' in a cable; did you mean 'speed'?"
};

template <typename T>
using Parsed = tl::expected<T, Error>;

[[nodiscard]] inline tl::unexpected<Error> refuse(std::string text) {
  return tl::unexpected<Error>(Error{std::move(text)});
}

// What is told comes from files and people: one line for a terminal, without control characters and not too long.
[[nodiscard]] std::string one_line(std::string text);

// A word of theirs within such a line.
[[nodiscard]] std::string shown(std::string_view text);

}  // namespace softib::fabric
