// Text files line by line.
#pragma once

#include <algorithm>
#include <string_view>

namespace softib::fabric::topo {

// Takes the first line off `text`; gives it without its end.
inline std::string_view take_line(std::string_view& text) {
  const size_t end = std::min(text.find('\n'), text.size());
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return line;
}

}  // namespace softib::fabric::topo
