#include "fabric/yaml_reader.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <set>

#include "base/edit_distance.h"
#include "fabric/error.h"

namespace softib::fabric {

namespace {

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return result;
}

std::string known(const std::vector<std::string_view>& choices) {
  return fmt::format("; known are: {}", fmt::join(choices, ", "));
}

std::optional<u64> parse_digits(std::string_view text, int base) {
  u64 value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (text.empty() || error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// "5254:00ff:fe00:0001"
std::optional<u64> parse_grouped_guid(std::string_view text) {
  if (text.size() != 19) return std::nullopt;
  u64 value = 0;
  for (size_t group = 0; group < 4; ++group) {
    std::optional<u64> part = parse_digits(text.substr(group * 5, 4), 16);
    if (!part || (group < 3 && text[group * 5 + 4] != ':')) return std::nullopt;
    value = value << 16 | *part;
  }
  return value;
}

std::optional<u32> parse_ipv4(std::string_view text) {
  u32 value = 0;
  for (int part = 0; part < 4; ++part) {
    size_t dot = text.find('.');
    if ((dot == std::string_view::npos) != (part == 3)) return std::nullopt;
    std::optional<u64> octet = parse_digits(text.substr(0, dot), 10);
    if (!octet || *octet > 255) return std::nullopt;
    value = value << 8 | static_cast<u32>(*octet);
    if (part < 3) text.remove_prefix(dot + 1);
  }
  return value;
}

}  // namespace

int line_of(const YAML::Node& node) { return node.Mark().is_null() ? 0 : node.Mark().line + 1; }

std::optional<u64> parse_number(std::string_view text) {
  if (text.starts_with("0x") || text.starts_with("0X")) return parse_digits(text.substr(2), 16);
  return parse_digits(text, 10);
}

std::string hint(std::string_view word, const std::vector<std::string_view>& choices) {
  std::string_view nearest;
  size_t best = std::max<size_t>(2, word.size() / 3) + 1;
  for (std::string_view choice : choices)
    if (size_t d = edit_distance(lower(word.substr(0, 64)), lower(choice)); d < best) {
      best = d;
      nearest = choice;
    }
  if (!nearest.empty()) return fmt::format("; did you mean '{}'?", nearest);
  return known(choices);
}

void YamlReader::fail(int line, std::string_view text) {
  if (error_) return;
  error_ = line > 0 ? fmt::format("{}:{}: {}", source_, line, text) : fmt::format("{}: {}", source_, text);
}

void YamlReader::fail_as_is(std::string text) {
  if (!error_) error_ = std::move(text);
}

void YamlReader::fail(const YAML::Node& at, std::string_view text) { fail(line_of(at), text); }

void YamlReader::check_key(const YAML::Node& key, std::string_view what, std::initializer_list<std::string_view> keys) {
  if (!key.IsScalar()) return fail(key, fmt::format("a key of {} is not a plain word", what));
  if (std::find(keys.begin(), keys.end(), key.Scalar()) == keys.end())
    fail(key, fmt::format("unknown key '{}' in {}{}", shown(key.Scalar()), what, hint(key.Scalar(), keys)));
}

bool YamlReader::check_map(const YAML::Node& node, std::string_view what,
                           std::initializer_list<std::string_view> keys) {
  if (!ok()) return false;
  if (!node.IsMap()) {
    fail(node, fmt::format("{} must be a map of keys and values", what));
    return false;
  }
  std::set<std::string> seen;
  for (const auto& entry : node) {
    check_key(entry.first, what, keys);
    if (ok() && !seen.insert(entry.first.Scalar()).second)
      fail(entry.first, fmt::format("key '{}' appears twice in {}", entry.first.Scalar(), what));
    if (!ok()) return false;
  }
  return true;
}

std::string YamlReader::text(const YAML::Node& node, std::string_view fallback) {
  if (!ok() || !node.IsDefined()) return std::string(fallback);
  if (node.IsScalar()) return node.Scalar();
  fail(node, "a name or word is expected here");
  return std::string(fallback);
}

u64 YamlReader::number(const YAML::Node& node, std::string_view what, u64 least, u64 most, u64 fallback) {
  if (!ok() || !node.IsDefined()) return fallback;
  std::optional<u64> value = node.IsScalar() ? parse_number(node.Scalar()) : std::nullopt;
  if (value && *value >= least && *value <= most) return *value;
  fail(node, fmt::format("{} must be a number from {} to {}{}", what, least, most,
                         node.IsScalar() ? fmt::format(", not '{}'", shown(node.Scalar())) : std::string()));
  return fallback;
}

bool YamlReader::boolean(const YAML::Node& node, bool fallback) {
  if (!ok() || !node.IsDefined()) return fallback;
  bool value = fallback;
  if (!node.IsScalar() || !YAML::convert<bool>::decode(node, value)) fail(node, "true or false is expected here");
  return value;
}

u64 YamlReader::guid(const YAML::Node& node) {
  if (!ok() || !node.IsDefined()) return 0;
  std::string value = text(node);
  std::optional<u64> parsed = parse_grouped_guid(value);
  if (!parsed) parsed = parse_number(value);
  if (!parsed || *parsed == 0)
    fail(node, fmt::format("'{}' is no GUID; write 0x followed by up to 16 digits, not all 0", shown(value)));
  return parsed.value_or(0);
}

u32 YamlReader::ipv4(const YAML::Node& node) {
  if (!ok() || !node.IsDefined()) return 0;
  std::string value = text(node);
  std::optional<u32> parsed = parse_ipv4(value);
  if (!parsed || *parsed == 0) fail(node, fmt::format("'{}' is no IPv4 address", shown(value)));
  return parsed.value_or(0);
}

size_t YamlReader::choice(const YAML::Node& node, std::string_view what, const std::vector<std::string_view>& choices,
                          size_t fallback) {
  if (!ok() || !node.IsDefined()) return fallback;
  std::string value = text(node);
  for (size_t i = 0; i < choices.size(); ++i)
    if (lower(choices[i]) == lower(value)) return i;
  fail(node, fmt::format("'{}' is no {}{}", shown(value), what, known(choices)));
  return fallback;
}

}  // namespace softib::fabric
