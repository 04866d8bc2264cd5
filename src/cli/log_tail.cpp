#include "cli/log_tail.h"

#include <algorithm>
#include <vector>

#include "fabric/runtime.h"

namespace softib::cli {

std::string tail(std::string_view text, size_t lines, std::string_view prefix) {
  std::vector<std::string_view> all;
  while (!text.empty()) {
    size_t end = std::min(text.find('\n'), text.size());
    all.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  std::string result;
  for (size_t i = all.size() - std::min(lines, all.size()); i < all.size(); ++i)
    result.append(prefix).append(all[i]).append("\n");
  return result;
}

std::string tail_of_file(const std::string& path, size_t lines, std::string_view prefix) {
  auto text = fabric::read_file(path);
  return text ? tail(*text, lines, prefix) : std::string();
}

}  // namespace softib::cli
