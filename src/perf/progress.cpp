#include "perf/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>

#include "perf/launch/variables.h"

namespace softib::perf {

namespace {

constexpr u64 bar_width = 24;

}  // namespace

std::string Progress::bar(u64 done, u64 steps, const std::string& what) {
  const u64 full = steps == 0 ? 0 : done * bar_width / steps;
  return fmt::format("[{:#<{}}{:.<{}}] {:>3}/{} {}", "", full, "", bar_width - full, done, steps, what);
}

std::optional<int> Progress::terminal() {
  const char* told = std::getenv(variables::terminal);
  if (told != nullptr) return std::string_view(told) == "1" ? STDOUT_FILENO : STDERR_FILENO;
  return ::isatty(STDERR_FILENO) == 1 ? std::optional(STDERR_FILENO) : std::nullopt;
}

void Progress::put(const std::string& text) const {
  if (::write(*stream_, text.data(), text.size()) < 0) return;  // nobody to tell
}

void Progress::show(const std::string& what) {
  if (!stream_) return;
  put("\r\033[K" + bar(done_, steps_, what));
  drawn_ = true;
}

void Progress::hide() {
  if (drawn_) put("\r\033[K");
  drawn_ = false;
}

}  // namespace softib::perf
