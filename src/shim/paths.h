// Which paths belong to the fabric, and where they lie in the tree that softibd keeps for this host. Pure: no state, no
// allocation, no system call beyond the `exists` that is passed in.
#pragma once

#include <climits>
#include <optional>
#include <string_view>

#include "base/types.h"
#include "ipc/port_counters.h"

namespace softib::shim {

// A longer root switches the shim off (tree.cpp says so), so a redirected path always fits.
inline constexpr size_t max_root = 1024;
using PathBuffer = char[PATH_MAX + max_root];

enum class PathKind : u8 {
  plain,  // not ours
  tree,   // a file of the host's tree, or one beside it that is named by way of it
  device  // a device node: its file in the tree is a placeholder
};

enum class DeviceKind : u8 { uverbs, umad, issm, rdma_cm };

// /dev/infiniband/uverbsN and its like.
struct DeviceNode {
  DeviceKind kind = DeviceKind::uverbs;
  u32 number = 0;  // the N
  friend bool operator==(const DeviceNode&, const DeviceNode&) = default;
};

struct Mapping {
  PathKind kind = PathKind::plain;
  DeviceNode device;
};

class PathMap {
 public:
  // `root` is the host's folder, with sys/ and dev/ in it; it outlives this.
  PathMap(std::string_view root, bool (*exists)(const char*)) : root_(root), exists_(exists) {}

  // Where an absolute path leads. For a path of ours `out` holds the path to use instead.
  Mapping map(std::string_view absolute, PathBuffer& out) const;

 private:
  Mapping map_under_root(std::string_view absolute, PathBuffer& out) const;
  bool is_ours(PathBuffer& out, std::string_view path) const;

  std::string_view root_;
  bool (*exists_)(const char*);
};

// .../infiniband/DEVICE/ports/N/counters/NAME, the real path of a counter in a tree.
struct CounterPlace {
  std::string_view device;
  u32 port = 0;
  ipc::PortCounter counter{};
};
std::optional<CounterPlace> counter_place(std::string_view path);

// Whether the last part of the path is a counter's name: the cheap question before the other one.
bool names_counter(std::string_view path);

// A path relative to a folder can only be ours if it names one of these; anything else need not be looked up.
bool may_lead_into_tree(std::string_view relative);

// The path as the program knows it, if `path` lies under `root`.
std::optional<std::string_view> strip_root(std::string_view path, std::string_view root);

// Copies `path` without "//", "/./" and without the ".." that stand among its first three components (below /sys and
// /dev those are folders, never links; further down ".." is left for the kernel, which knows the links). Gives the
// length, 0 if it does not fit.
size_t normalise(std::string_view path, char* out, size_t room);

// What "/dev/infiniband/NAME" names, or nothing.
std::optional<DeviceNode> device_node(std::string_view path);

// Its device number as the kernel's drivers give it: major 231; the umad and issm nodes from 64 on have another.
struct DeviceNumber {
  u32 major;
  u32 minor;
};
DeviceNumber number_of(DeviceNode node);

}  // namespace softib::shim
