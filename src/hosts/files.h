// Files of /proc, which take a text in one piece or not at all.
#pragma once

#include <fcntl.h>

#include <string_view>

#include "base/fd.h"
#include "base/types.h"

namespace softib::hosts {

[[nodiscard]] inline Result<void> write_at_once(const char* path, std::string_view text) {
  const Fd file(::open(path, O_WRONLY | O_CLOEXEC));
  if (!file || ::write(file.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size())) return fail(errno);
  return {};
}

}  // namespace softib::hosts
