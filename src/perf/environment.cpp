#include "perf/environment.h"

#include <strings.h>

#include <array>
#include <cstdlib>
#include <optional>

namespace softib::perf {

namespace {

enum class Splitting : u8 { by_and, by_or, by_modulo, by_quotient };

struct SplitWord {
  std::string_view word;
  Splitting splitting;
};

constexpr std::array<SplitWord, 8> split_words{{
    {"AND", Splitting::by_and},
    {"&", Splitting::by_and},
    {"OR", Splitting::by_or},
    {"|", Splitting::by_or},
    {"MOD", Splitting::by_modulo},
    {"%", Splitting::by_modulo},
    {"DIV", Splitting::by_quotient},
    {"/", Splitting::by_quotient},
}};

std::optional<u32> split_number(const char* text) {
  while (*text == ' ' || *text == '\t') ++text;
  char* end = nullptr;
  const bool binary = strncasecmp(text, "0b", 2) == 0;
  const char* digits = binary ? text + 2 : text;
  const unsigned long value = std::strtoul(digits, &end, binary ? 2 : 0);
  if (end == digits) return std::nullopt;
  return static_cast<u32>(value);
}

u32 split_by(Splitting splitting, u32 process, u32 number) {
  switch (splitting) {
    case Splitting::by_and:
      return process & number;
    case Splitting::by_or:
      return process | number;
    case Splitting::by_modulo:
      return number == 0 ? 0 : process % number;
    case Splitting::by_quotient:
      return number == 0 ? 0 : process / number;
  }
  return 0;
}

}  // namespace

const char* tests_variable(std::string_view name) {
  const char* ours = std::getenv(("SOFTIB_TESTS_" + std::string(name)).c_str());
  return ours != nullptr ? ours : std::getenv(("NCCL_TESTS_" + std::string(name)).c_str());
}

double least_bandwidth() {
  const char* text = tests_variable("MIN_BW");
  return text != nullptr ? std::strtod(text, nullptr) : -1;
}

u32 color_of(u32 process, const char* mask, const char* split) {
  if (mask != nullptr) return process & static_cast<u32>(std::strtoul(mask, nullptr, 16));
  if (split == nullptr) return 0;
  for (const SplitWord& row : split_words) {
    if (strncasecmp(split, row.word.data(), row.word.size()) != 0) continue;
    const auto number = split_number(split + row.word.size());
    return number ? split_by(row.splitting, process, *number) : 0;
  }
  return 0;
}

}  // namespace softib::perf
