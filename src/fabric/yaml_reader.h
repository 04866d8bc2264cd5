// Reading YAML with errors that name file, line and cause. The first error sticks: what is read after it gives
// defaults, so a parser runs straight through and asks for the error at the end (and between the items of a list).
#pragma once

#include <yaml-cpp/yaml.h>

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/types.h"

namespace softib::fabric {

class YamlReader {
 public:
  explicit YamlReader(std::string_view source) : source_(source) {}

  [[nodiscard]] bool ok() const { return !error_; }
  [[nodiscard]] const std::string& error() const { return *error_; }

  void fail(const YAML::Node& at, std::string_view text);
  void fail(int line, std::string_view text);  // 1-based; 0 = no line to name
  void fail_as_is(std::string text);           // one that names its place already

  // Checks that `node` is a map with these keys only, each once. `what` as in "unknown key 'x' in a host".
  bool check_map(const YAML::Node& node, std::string_view what, std::initializer_list<std::string_view> keys);

  // Each reads one value; the value given as `fallback` comes back for an absent node or after an error.
  std::string text(const YAML::Node& node, std::string_view fallback = {});
  u64 number(const YAML::Node& node, std::string_view what, u64 least, u64 most, u64 fallback);
  bool boolean(const YAML::Node& node, bool fallback);
  // "0x5254...", a decimal number, or "5254:00ff:fe00:0001"; never 0.
  u64 guid(const YAML::Node& node);
  u32 ipv4(const YAML::Node& node);

  // Index of the value among `choices`, in any case.
  size_t choice(const YAML::Node& node, std::string_view what, const std::vector<std::string_view>& choices,
                size_t fallback);

 private:
  void check_key(const YAML::Node& key, std::string_view what, std::initializer_list<std::string_view> keys);

  std::string source_;
  std::optional<std::string> error_;
};

[[nodiscard]] int line_of(const YAML::Node& node);  // 1-based

// "; did you mean 'hosts'?" when one of the choices is near, else "; known are: a, b, c".
[[nodiscard]] std::string hint(std::string_view word, const std::vector<std::string_view>& choices);

// Whole text as a number: decimal, or hexadecimal with 0x.
[[nodiscard]] std::optional<u64> parse_number(std::string_view text);

}  // namespace softib::fabric
