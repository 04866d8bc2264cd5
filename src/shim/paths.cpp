#include "shim/paths.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <utility>

namespace softib::shim {

namespace {

constexpr std::string_view device_folder = "/dev/infiniband/";
// The InfiniBand character devices' registered major number; udev names them here by number.
constexpr std::string_view by_number_prefix = "/dev/char/231:";
constexpr u32 infiniband_major = 231;
constexpr std::string_view rdma_cm_name = "rdma_cm";
constexpr DeviceNumber rdma_cm_number{10, 58};  // of class misc, which gives numbers out as they are asked for
constexpr u32 overflow_major = 234;             // the first of those that Linux gives out when asked for any

struct NodeRow {
  std::string_view name;
  DeviceKind kind;
  u32 first_minor;
  u32 count;
};

constexpr auto node_rows = std::to_array<NodeRow>({
    {"umad", DeviceKind::umad, 0, 64},
    {"issm", DeviceKind::issm, 64, 64},
    {"uverbs", DeviceKind::uverbs, 192, 32},
});

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
    {"/sys/class/misc/rdma_cm", Taken::as_folder, 0},
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

// The name below device_folder.
std::optional<DeviceNode> node_named(std::string_view name) {
  if (name == rdma_cm_name) return DeviceNode{DeviceKind::rdma_cm, 0};
  for (const NodeRow& row : node_rows) {
    if (!name.starts_with(row.name)) continue;
    if (auto number = parse_number(name.substr(row.name.size()))) return DeviceNode{row.kind, *number};
  }
  return std::nullopt;
}

const NodeRow& row_of(DeviceKind kind) {
  return *std::find_if(node_rows.begin(), node_rows.end(), [kind](const NodeRow& row) { return row.kind == kind; });
}

std::optional<DeviceNode> node_by_minor(std::string_view path) {
  if (!path.starts_with(by_number_prefix)) return std::nullopt;
  auto minor = parse_number(path.substr(by_number_prefix.size()));
  if (!minor) return std::nullopt;
  for (const NodeRow& row : node_rows)
    if (*minor >= row.first_minor && *minor - row.first_minor < row.count)
      return DeviceNode{row.kind, *minor - row.first_minor};
  return std::nullopt;
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

// A path out of a folder that the machine itself may not have, such as "/sys/class/infiniband/..".
bool climbs_out(std::string_view absolute) {
  return absolute.find("/..") != std::string_view::npos &&
         (absolute.starts_with("/sys/class/infiniband") || absolute.starts_with(device_folder));
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

std::optional<DeviceNode> device_node(std::string_view path) {
  if (!path.starts_with(device_folder)) return std::nullopt;
  return node_named(path.substr(device_folder.size()));
}

DeviceNumber number_of(DeviceNode node) {
  if (node.kind == DeviceKind::rdma_cm) return rdma_cm_number;
  const NodeRow& row = row_of(node.kind);
  if (node.kind == DeviceKind::uverbs || node.number < row.count)
    return {infiniband_major, row.first_minor + node.number};
  return {overflow_major, row.first_minor + node.number - row.count};
}

std::optional<std::string_view> strip_root(std::string_view path, std::string_view root) {
  if (!path.starts_with(root)) return std::nullopt;
  std::string_view rest = path.substr(root.size());
  if (!rest.starts_with("/sys") && !rest.starts_with("/dev")) return std::nullopt;
  if (rest.size() > 4 && rest[4] != '/') return std::nullopt;
  return rest;
}

bool may_lead_into_tree(std::string_view relative) {
  return relative.find("infiniband") != std::string_view::npos || relative.find("uverbs") != std::string_view::npos ||
         relative.find(rdma_cm_name) != std::string_view::npos || names_counter(relative);
}

bool names_counter(std::string_view path) {
  return ipc::port_counter_named(path.substr(path.rfind('/') + 1)).has_value();
}

std::optional<CounterPlace> counter_place(std::string_view path) {
  std::string_view parts[6];  // from the last to the first
  for (std::string_view& part : parts) {
    const size_t slash = path.rfind('/');
    if (slash == std::string_view::npos) return std::nullopt;
    part = path.substr(slash + 1);
    path = path.substr(0, slash);
  }
  const auto& [name, counters, number, ports, device, infiniband] = parts;
  const auto counter = ipc::port_counter_named(name);
  const auto port = parse_number(number);
  if (!counter || !port || counters != "counters" || ports != "ports" || infiniband != "infiniband")
    return std::nullopt;
  return CounterPlace{device, *port, *counter};
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
  if (auto node = device_node(*known_as)) return {PathKind::device, *node};
  return {PathKind::tree, {}};
}

Mapping PathMap::map(std::string_view absolute, PathBuffer& out) const {
  if (absolute.size() >= PATH_MAX) return {};
  if (absolute.starts_with(root_)) return map_under_root(absolute, out);
  std::memcpy(out, root_.data(), root_.size());
  size_t length = normalise(absolute, out + root_.size(), sizeof out - root_.size());
  std::string_view path(out + root_.size(), length);
  if (auto node = node_by_minor(path)) {
    const std::string_view name = row_of(node->kind).name;
    char* place = std::copy(device_folder.begin(), device_folder.end(), out + root_.size());
    place = std::copy(name.begin(), name.end(), place);
    *std::to_chars(place, out + sizeof out - 1, node->number).ptr = '\0';
    return {PathKind::device, *node};
  }
  if (!is_ours(out, path)) {
    if (!climbs_out(absolute)) return {};
    std::memmove(out, path.data(), path.size() + 1);
    return {PathKind::tree, {}};
  }
  if (auto node = device_node(path)) return {PathKind::device, *node};
  return {PathKind::tree, {}};
}

}  // namespace softib::shim
