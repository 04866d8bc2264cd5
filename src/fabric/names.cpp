#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "fabric/fabric.h"

namespace softib::fabric {

namespace {

constexpr size_t longest_name = 63;

bool letter_or_digit(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; }

bool valid_label(std::string_view label) {
  if (label.empty() || label.front() == '-' || label.back() == '-') return false;
  return std::all_of(label.begin(), label.end(), [](char c) { return letter_or_digit(c) || c == '-'; });
}

}  // namespace

bool valid_fabric_name(std::string_view name) {
  if (name.empty() || name.size() > longest_name || name.front() == '.' || name.front() == '-') return false;
  return std::all_of(name.begin(), name.end(),
                     [](char c) { return letter_or_digit(c) || c == '.' || c == '_' || c == '-'; });
}

bool valid_host_name(std::string_view name) {
  if (name.size() > longest_name) return false;
  while (true) {
    size_t dot = name.find('.');
    if (!valid_label(name.substr(0, dot))) return false;
    if (dot == std::string_view::npos) return true;
    name.remove_prefix(dot + 1);
  }
}

bool valid_description(std::string_view text) {
  constexpr size_t longest = 64;  // of NodeDescription
  if (text.empty() || text.size() > longest || text.front() == ' ' || text.back() == ' ') return false;
  return std::all_of(text.begin(), text.end(), [](char c) { return c >= ' ' && c <= '~'; });
}

std::string node_description(const Host& host, const Hca& hca) {
  if (!hca.description.empty()) return hca.description;
  if (host.kind == HostKind::aggregation) return "Mellanox Technologies Aggregation Node";  // tools know it by that
  return fmt::format("{} {}", host.name, hca.name);
}

std::string node_description(const Switch& sw) { return sw.description.empty() ? sw.name : sw.description; }

std::string to_string(const Fabric& fabric, const CableEnd& end) {
  if (end.kind == EndKind::sw) return fmt::format("{}/{}", fabric.switches[end.node].name, end.port);
  const Host& host = fabric.hosts[end.node];
  return fmt::format("{}/{}/{}", host.name, host.hcas[end.hca].name, end.port);
}

std::optional<u32> find_host(const Fabric& fabric, std::string_view name) {
  for (u32 i = 0; i < fabric.hosts.size(); ++i)
    if (fabric.hosts[i].name == name) return i;
  return std::nullopt;
}

}  // namespace softib::fabric
