#include "cli/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

namespace softib::cli {

namespace {

struct Column {
  size_t width = 0;
  bool numeric = true;
};

bool is_number(const std::string& text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](unsigned char c) { return std::isdigit(c) != 0; });
}

std::vector<Column> measure(const std::vector<std::vector<std::string>>& rows) {
  std::vector<Column> columns(rows[0].size());
  for (size_t r = 0; r < rows.size(); ++r)
    for (size_t c = 0; c < columns.size(); ++c) {
      columns[c].width = std::max(columns[c].width, rows[r][c].size());
      if (r > 0 && !is_number(rows[r][c])) columns[c].numeric = false;
    }
  return columns;
}

}  // namespace

std::string Table::text() const {
  std::vector<Column> columns = measure(rows_);
  std::string result;
  for (const auto& row : rows_) {
    std::string line;
    for (size_t c = 0; c < columns.size(); ++c) {
      if (columns[c].numeric)
        line += fmt::format("{:>{}}  ", row[c], columns[c].width);
      else
        line += fmt::format("{:<{}}  ", row[c], columns[c].width);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    result += line + "\n";
  }
  return result;
}

}  // namespace softib::cli
