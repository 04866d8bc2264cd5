// What the system's errors are called, for people.
#pragma once

#include <cerrno>
#include <string>
#include <system_error>

#include "base/types.h"

namespace softib {

// "No such file or directory"; of errno where none is given. strerror() isn't safe with threads.
[[nodiscard]] inline std::string error_text(int error = errno) { return std::generic_category().message(error); }
[[nodiscard]] inline std::string error_text(Errno error) { return error_text(to_int(error)); }

}  // namespace softib
