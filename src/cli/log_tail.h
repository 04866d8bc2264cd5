// The end of a log, for an error message.
#pragma once

#include <string>
#include <string_view>

namespace softib::cli {

// The last `lines` lines of `text`, each with a prefix; empty when there is no text.
[[nodiscard]] std::string tail(std::string_view text, size_t lines, std::string_view prefix);
// The same of a file; empty when it can't be read.
[[nodiscard]] std::string tail_of_file(const std::string& path, size_t lines, std::string_view prefix);

}  // namespace softib::cli
