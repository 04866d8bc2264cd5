#include "fabric/topo/node_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>

#include "base/types.h"
#include "fabric/fabric.h"

namespace softib::fabric::topo {

namespace {

constexpr size_t longest_name = 63;

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; }

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return result;
}

// What cards call themselves. Each begins or is part of a description that has no host in it.
bool is_vendor_text(std::string_view description) {
  constexpr std::array<std::string_view, 8> marks{
      "mellanox technologies", "connectx", "connect-ib", "infinihost", "voltaire", "qlogic", "topspin", "nvidia corp"};
  std::string text = lower(description);
  return std::any_of(marks.begin(), marks.end(),
                     [&](std::string_view mark) { return text.find(mark) != std::string::npos; });
}

std::string_view digits_at_end(std::string_view text) {
  size_t begin = text.size();
  while (begin > 0 && is_digit(text[begin - 1])) --begin;
  return text.substr(begin);
}

// "HCA-1" is the first of its host: mlx5_0.
std::string device_of_hca_number(std::string_view word) {
  std::string_view digits = digits_at_end(word);
  if (digits.empty() || digits.size() > 2 || lower(word.substr(0, word.size() - digits.size())) != "hca-") return {};
  int number = std::stoi(std::string(digits));
  return number >= 1 ? fmt::format("mlx5_{}", number - 1) : std::string();
}

// A device as the kernel names them: letters first, a number last ("mlx5_0", "ib2", "hfi1_0", "mlx5_bond_0").
std::string device_of(std::string_view word) {
  if (std::string device = device_of_hca_number(word); !device.empty()) return device;
  constexpr std::array<std::string_view, 8> families{"mlx", "ib", "hfi", "qib", "mthca", "rxe", "rocep", "rdma"};
  bool known = std::any_of(families.begin(), families.end(), [&](auto family) { return word.starts_with(family); });
  bool valid = valid_fabric_name(word) && word.find('.') == std::string_view::npos && !digits_at_end(word).empty();
  return known && valid ? std::string(word) : std::string();
}

std::string cleaned(std::string_view text, std::string_view also) {
  std::string result;
  for (char c : text) {
    bool good = is_word(c) || also.find(c) != std::string_view::npos;
    if (!good && (result.empty() || result.back() == '-')) continue;
    result += good ? c : '-';
  }
  result.resize(std::min(result.size(), longest_name));
  return result;
}

std::string_view trimmed(std::string_view text, std::string_view what) {
  while (!text.empty() && what.find(text.front()) != std::string_view::npos) text.remove_prefix(1);
  while (!text.empty() && what.find(text.back()) != std::string_view::npos) text.remove_suffix(1);
  return text;
}

}  // namespace

HcaName name_from_description(std::string_view description) {
  description = trimmed(description, " \t'");
  if (is_vendor_text(description)) return {};
  size_t last = description.find_last_of(" /");
  if (last == std::string_view::npos) return {std::string(description), {}};
  std::string device = device_of(description.substr(last + 1));
  // A name may have blanks in it when a device ends the text; without one, only the first word is the host's.
  size_t end = device.empty() ? description.find_first_of(" /") : last;
  return {std::string(trimmed(description.substr(0, end), " /")), std::move(device)};
}

bool is_aggregation_node(std::string_view description) {
  return lower(description).find("aggregation node") != std::string::npos;
}

std::string as_host_name(std::string_view text, std::string_view fallback) {
  std::string name = cleaned(text, "-.");
  // Parts between dots neither begin nor end with '-'.
  std::string result;
  for (size_t begin = 0; begin <= name.size();) {
    size_t end = std::min(name.find('.', begin), name.size());
    std::string_view part = trimmed(std::string_view(name).substr(begin, end - begin), "-");
    if (!part.empty()) result += (result.empty() ? "" : ".") + std::string(part);
    begin = end + 1;
  }
  return valid_host_name(result) ? result : std::string(fallback);
}

std::string as_switch_name(std::string_view text, std::string_view fallback) {
  std::string name = cleaned(text, "-._");
  std::string result(trimmed(name, "-."));
  return valid_fabric_name(result) ? result : std::string(fallback);
}

std::string UniqueNames::take(std::string name) {
  if (taken_.insert(name).second) return name;
  for (u32 number = 2;; ++number) {
    std::string suffix = fmt::format("-{}", number);
    std::string candidate = name.substr(0, longest_name - suffix.size()) + suffix;
    if (taken_.insert(candidate).second) return candidate;
  }
}

bool natural_less(std::string_view a, std::string_view b) {
  size_t i = 0;
  size_t j = 0;
  while (i < a.size() && j < b.size()) {
    if (!is_digit(a[i]) || !is_digit(b[j])) {
      if (a[i] != b[j]) return a[i] < b[j];
      ++i;
      ++j;
      continue;
    }
    size_t end_a = std::min(a.find_first_not_of("0123456789", i), a.size());
    size_t end_b = std::min(b.find_first_not_of("0123456789", j), b.size());
    std::string_view x = a.substr(i, end_a - i);
    std::string_view y = b.substr(j, end_b - j);
    x.remove_prefix(std::min(x.find_first_not_of('0'), x.size()));
    y.remove_prefix(std::min(y.find_first_not_of('0'), y.size()));
    if (x.size() != y.size()) return x.size() < y.size();
    if (x != y) return x < y;
    i = end_a;
    j = end_b;
  }
  if (a.size() - i != b.size() - j) return a.size() - i < b.size() - j;
  return a < b;
}

}  // namespace softib::fabric::topo
