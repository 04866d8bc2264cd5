#include "perf/traffic.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "perf/environment.h"

namespace softib::perf {

namespace {

u64 cut_to_16(double bytes) { return static_cast<u64>(bytes) & ~u64{15}; }

// The variable's number, or `otherwise` where it isn't one.
double number_from(const char* text, double otherwise) {
  if (text == nullptr) return otherwise;
  char* end = nullptr;
  const double value = std::strtod(text, &end);
  return end == text || *end != '\0' || !std::isfinite(value) ? otherwise : value;
}

coll::Outcome<std::vector<u64>> row_of(const std::string& line, const std::string& place, double scale) {
  std::vector<u64> row;
  std::istringstream words(line);
  for (std::string word; words >> word;) {
    const double value = number_from(word.c_str(), -1);
    if (value < 0 || value * scale >= 0x1p62)
      return coll::refuse(coll::Code::invalid_argument, fmt::format("{}: '{}' is no number of bytes", place, word));
    row.push_back(cut_to_16(value * scale));
  }
  return row;
}

}  // namespace

Traffic Traffic::by_distance(double spread) {
  Traffic traffic;
  traffic.spread_ = std::clamp(spread, 0.0, 1.0);
  return traffic;
}

coll::Outcome<Traffic> Traffic::of_text(std::string_view text, const std::string& name, double scale) {
  Traffic traffic;
  traffic.scale_ = std::max(scale, 0.0);
  traffic.name_ = name;
  std::istringstream lines{std::string(text)};
  u32 number = 0;
  for (std::string line; std::getline(lines, line);) {
    auto row = row_of(line, fmt::format("{}:{}", name, ++number), traffic.scale_);
    if (!row) return tl::unexpected(row.error());
    if (!row->empty()) traffic.matrix_.push_back(std::move(*row));
  }
  if (traffic.matrix_.empty()) return coll::refuse(coll::Code::invalid_argument, name + ": no traffic matrix in it");
  for (const auto& row : traffic.matrix_)
    if (row.size() != traffic.matrix_.size())
      return coll::refuse(coll::Code::invalid_argument,
                          fmt::format("{}: a traffic matrix is square, this one has {} lines and {} numbers in one",
                                      name, traffic.matrix_.size(), row.size()));
  return traffic;
}

coll::Outcome<Traffic> Traffic::of_environment() {
  const char* name = tests_variable("ALLTOALLV_MATRIX_FILE");
  if (name == nullptr) return by_distance(number_from(tests_variable("ALLTOALLV_SPREAD"), 1));
  std::ifstream file(name);
  std::ostringstream text;
  text << file.rdbuf();
  if (!file) return coll::refuse(coll::Code::invalid_argument, fmt::format("{}: can't be read", name));
  return of_text(text.str(), name, number_from(tests_variable("ALLTOALLV_MATRIX_SCALE"), 1));
}

u64 Traffic::bytes(u32 from, u32 to, u32 ranks, u64 total) const {
  if (is_matrix()) return from < matrix_.size() && to < matrix_.size() ? matrix_[from][to] : 0;
  if (ranks == 1) return total & ~u64{15};
  const u32 distance = (to + ranks - from) % ranks;
  const double all = static_cast<double>(total);
  const double distances = static_cast<double>(u64{ranks} * (ranks - 1) / 2);
  return cut_to_16((1 - spread_) * (all / ranks) + spread_ * (distance * all / distances));
}

}  // namespace softib::perf
