#include "shim/paths.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <utility>

namespace softib::shim {

namespace {

constexpr std::string_view uverbs_prefix = "/dev/infiniband/uverbs";
// The InfiniBand character devices' registered major number; udev names them here by number.
constexpr std::string_view by_number_prefix = "/dev/char/231:";
constexpr u32 first_uverbs_minor = 192;

enum class Taken : u8 {
  by_name,     // whatever begins like this is the fabric's, also what does not exist: a real HCA must not show through
  as_folder,   // the same, but the name must end there
  if_present,  // only if the tree has the folder that the first `components` components name
};

struct Rule {
  std::string_view prefix;
  Taken taken;
  u8 components;
};

constexpr auto rules = std::to_array<Rule>({
    {"/sys/class/infiniband", Taken::by_name, 0},
    {"/dev/infiniband", Taken::as_folder, 0},
    {"/sys/devices/pci", Taken::if_present, 4},
    {"/sys/bus/pci/devices/", Taken::if_present, 5},
});

constexpr u32 foldable_components = 3;

std::optional<u32> parse_number(std::string_view digits) {
  u32 value = 0;
  auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc{} || end != digits.data() + digits.size()) return std::nullopt;
  return value;
}

std::optional<u32> number_by_minor(std::string_view path) {
  if (!path.starts_with(by_number_prefix)) return std::nullopt;
  auto minor = parse_number(path.substr(by_number_prefix.size()));
  if (!minor || *minor < first_uverbs_minor) return std::nullopt;
  return *minor - first_uverbs_minor;
}

// The end of the first `count` components of an absolute path; npos if it has fewer.
size_t end_of_components(std::string_view path, u32 count) {
  size_t at = 0;
  for (u32 i = 0; i < count; ++i) {
    if (at >= path.size() || at + 1 >= path.size()) return std::string_view::npos;
    at = std::min(path.find('/', at + 1), path.size());
  }
  return at;
}

// Appends one component; false when there is no room.
bool append(char* out, size_t& length, size_t room, std::string_view component) {
  if (length + 1 + component.size() + 1 > room) return false;
  out[length++] = '/';
  std::memcpy(out + length, component.data(), component.size());
  length += component.size();
  return true;
}

void drop_last(const char* out, size_t& length) {
  while (length > 0 && out[--length] != '/') {
  }
}

}  // namespace

size_t normalise(std::string_view path, char* out, size_t room) {
  size_t length = 0;
  u32 depth = 0;
  for (size_t at = 0; at < path.size();) {
    size_t end = std::min(path.find('/', at), path.size());
    std::string_view component = path.substr(at, end - at);
    at = end + 1;
    if (component.empty() || component == ".") continue;
    if (component == ".." && depth <= foldable_components) {
      if (depth > 0) --depth;
      drop_last(out, length);
      continue;
    }
    if (!append(out, length, room, component)) return 0;
    ++depth;
  }
  if (length == 0 || path.ends_with('/')) {
    if (length + 2 > room) return 0;
    out[length++] = '/';
  }
  out[length] = '\0';
  return length;
}

std::optional<u32> uverbs_number(std::string_view path) {
  if (!path.starts_with(uverbs_prefix)) return std::nullopt;
  return parse_number(path.substr(uverbs_prefix.size()));
}

std::optional<std::string_view> strip_root(std::string_view path, std::string_view root) {
  if (!path.starts_with(root)) return std::nullopt;
  std::string_view rest = path.substr(root.size());
  if (!rest.starts_with("/sys") && !rest.starts_with("/dev")) return std::nullopt;
  if (rest.size() > 4 && rest[4] != '/') return std::nullopt;
  return rest;
}

bool may_lead_into_tree(std::string_view relative) {
  return relative.find("infiniband") != std::string_view::npos || relative.find("uverbs") != std::string_view::npos;
}

bool PathMap::is_ours(PathBuffer& out, std::string_view path) const {
  for (const Rule& rule : rules) {
    if (!path.starts_with(rule.prefix)) continue;
    if (rule.taken == Taken::by_name) return true;
    if (rule.taken == Taken::as_folder) return path.size() == rule.prefix.size() || path[rule.prefix.size()] == '/';
    size_t end = end_of_components(path, rule.components);
    if (end == std::string_view::npos) return false;
    char* cut = out + root_.size() + end;
    char kept = std::exchange(*cut, '\0');
    bool present = exists_(out);
    *cut = kept;
    return present;
  }
  return false;
}

// The program names a file of the tree by its real path, as it does after changing into a folder of the tree.
Mapping PathMap::map_under_root(std::string_view absolute, PathBuffer& out) const {
  auto known_as = strip_root(absolute, root_);
  if (!known_as || absolute.size() >= sizeof out) return {};
  std::memcpy(out, absolute.data(), absolute.size());
  out[absolute.size()] = '\0';
  if (auto number = uverbs_number(*known_as)) return {PathKind::device, *number};
  return {PathKind::tree, 0};
}

Mapping PathMap::map(std::string_view absolute, PathBuffer& out) const {
  if (absolute.size() >= PATH_MAX) return {};
  if (absolute.starts_with(root_)) return map_under_root(absolute, out);
  std::memcpy(out, root_.data(), root_.size());
  size_t length = normalise(absolute, out + root_.size(), sizeof out - root_.size());
  std::string_view path(out + root_.size(), length);
  if (auto number = number_by_minor(path)) {
    char* place = std::copy(uverbs_prefix.begin(), uverbs_prefix.end(), out + root_.size());
    *std::to_chars(place, out + sizeof out - 1, *number).ptr = '\0';
    return {PathKind::device, *number};
  }
  if (!is_ours(out, path)) return {};
  if (auto number = uverbs_number(path)) return {PathKind::device, *number};
  return {PathKind::tree, 0};
}

}  // namespace softib::shim
