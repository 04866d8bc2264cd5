#include "coll/tune/rules.h"

#include <fmt/format.h>

#include <charconv>
#include <fstream>
#include <sstream>

namespace softib::coll {

namespace {

constexpr u32 most_lanes = 1000;

std::vector<std::string> words_of(std::string_view line) {
  std::istringstream stream{std::string(line.substr(0, line.find('#')))};
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

std::optional<u64> size_from(std::string_view text) {
  u64 value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{}) return std::nullopt;
  const std::string_view unit(end, static_cast<std::size_t>(text.data() + text.size() - end));
  if (unit.empty()) return value;
  const std::size_t power = std::string_view("KMG").find(unit[0]);
  if (unit.size() != 1 || power == std::string_view::npos || value >> 30 != 0) return std::nullopt;
  return value << (10 * (power + 1));
}

std::optional<u32> lanes_from(std::string_view text) {
  const auto value = size_from(text);
  if (!value || *value == 0 || *value > most_lanes) return std::nullopt;
  return static_cast<u32>(*value);
}

// What is wrong with the word; empty: nothing. "*" leaves it open.
template <typename T>
bool read_limit(std::string_view word, std::optional<T>& limit) {
  if (word == "*") return true;
  const auto value = size_from(word);
  if (!value || *value > static_cast<T>(-1)) return false;
  limit = static_cast<T>(*value);
  return true;
}

std::string read_line(const std::vector<std::string>& words, TuningLine& line) {
  if (words.size() < 6 || words.size() > 7)
    return "a line has 6 or 7 words: collective, ranks, hosts, up to, algorithm, lanes and, if need be, window";
  const auto collective = collective_from_name(words[0]);
  if (!collective) return fmt::format("no collective is called {}", words[0]);
  line.collective = *collective;
  if (!read_limit(words[1], line.ranks)) return fmt::format("{} is no number of ranks", words[1]);
  if (!read_limit(words[2], line.hosts)) return fmt::format("{} is no number of hosts", words[2]);
  if (!read_limit(words[3], line.up_to)) return fmt::format("{} is no size", words[3]);
  for (const AlgorithmRow& row : algorithms()) {
    if (row.collective != line.collective || name_of(row.algorithm) != words[4]) continue;
    line.algorithm = row.algorithm;
    const auto lanes = lanes_from(words[5]);
    const auto window = words.size() == 7 ? lanes_from(words[6]) : std::optional(line.window);
    if (!lanes || !window) return fmt::format("lanes are numbers from 1 to {}", most_lanes);
    line.lanes = *lanes;
    line.window = *window;
    return {};
  }
  return fmt::format("{} isn't done by {}, but by {}", words[0], words[4], algorithm_names_for(line.collective));
}

}  // namespace

Outcome<std::vector<TuningLine>> parse_tuning(std::string_view text) {
  std::vector<TuningLine> lines;
  u32 number = 0;
  while (!text.empty()) {
    ++number;
    const std::size_t end = text.find('\n');
    const std::vector<std::string> words = words_of(text.substr(0, end));
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
    if (words.empty()) continue;
    TuningLine line;
    const std::string fault = read_line(words, line);
    if (!fault.empty()) return refuse(Code::invalid_argument, fmt::format("line {}: {}", number, fault));
    lines.push_back(line);
  }
  return lines;
}

Outcome<std::vector<TuningLine>> read_tuning_file(const std::string& path) {
  std::ifstream file(path);
  if (!file) return refuse(Code::invalid_argument, fmt::format("tuning file {} can't be read", path));
  std::ostringstream text;
  text << file.rdbuf();
  auto lines = parse_tuning(text.str());
  if (!lines) return refuse(lines.error().code, fmt::format("tuning file {}: {}", path, lines.error().text));
  return lines;
}

}  // namespace softib::coll
