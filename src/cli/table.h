// Text in aligned columns.
#pragma once

#include <string>
#include <vector>

namespace softib::cli {

class Table {
 public:
  explicit Table(std::vector<std::string> head) { rows_.push_back(std::move(head)); }
  void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
  [[nodiscard]] bool empty() const { return rows_.size() == 1; }
  // Two spaces between columns, none at a line's end. Columns whose body is all numbers stand to the right.
  [[nodiscard]] std::string text() const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace softib::cli
