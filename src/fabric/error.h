// The errors of what a person asked for: files, commands, faults. Calls between programs use base/types.h's Errno.
#pragma once

#include <string>
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

}  // namespace softib::fabric
