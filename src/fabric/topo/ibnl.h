// IBNL: how ibutils describes a make of system, its boards, the devices on them, and what leads to the front panel.
//
//   SYSTEM LEAF,LEAF:4x                a board, with the names that others call it by
//   NODE SW 24 MT47396 U1              a device: kind, ports, type, name
//       1 -> U2 8                      to a port of another device or board
//       2 -12x-5G-> P1                 to a plug of this board
//   TOPSYSTEM MTS9024                  the whole
//   SUBSYSTEM LEAF leaf1
//       P1 -> L1/P1                    to the front panel
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "fabric/fabric.h"

namespace softib::fabric::topo {

struct LinkLimits {
  std::optional<Speed> speed{};
  std::optional<Width> width{};
};

struct IbnlLink {
  int line = 0;
  std::string port;
  LinkLimits limits;
  std::string to;  // an instance, or a plug when to_port is empty
  std::string to_port;
};

struct IbnlInstance {
  int line = 0;
  bool is_node = true;
  EndKind kind = EndKind::sw;  // of a node
  u32 ports = 0;
  std::string type;  // device, or the board's name
  std::string name;
  std::vector<IbnlLink> links;
};

struct IbnlSystem {
  std::vector<std::string> names;
  std::vector<IbnlInstance> instances;
};

struct IbnlFile {
  std::string source;
  std::vector<IbnlSystem> boards;
  IbnlSystem top;
};

[[nodiscard]] Parsed<IbnlFile> parse_ibnl(std::string_view text, std::string_view source);

// A system with all its boards opened up.
struct NodePort {
  u32 node = 0;
  u32 port = 0;
  friend auto operator<=>(const NodePort&, const NodePort&) = default;
};
struct ExpandedNode {
  std::string path;  // "leaf1/U1"
  EndKind kind = EndKind::sw;
  u32 ports = 0;
  std::string type;
};
struct ExpandedLink {
  NodePort a;
  NodePort b;
  LinkLimits limits;
};
struct Plug {
  NodePort at;
  LinkLimits limits;
};
struct ExpandedSystem {
  std::vector<ExpandedNode> nodes;
  std::vector<ExpandedLink> links;
  std::map<std::string, Plug, std::less<>> plugs;
};

// `options` is what CFG: says: a board's path to its flavour, "R" to leave it out.
using BoardOptions = std::map<std::string, std::string, std::less<>>;
[[nodiscard]] Parsed<ExpandedSystem> expand(const IbnlFile& file, const BoardOptions& options);

// All definitions in some folders, by the names of their systems.
class IbnlLibrary {
 public:
  explicit IbnlLibrary(const std::vector<std::string>& folders);

  // One definition more; the first of a name stays.
  Parsed<void> add(std::string_view text, std::string_view source);

  [[nodiscard]] const IbnlFile* find(std::string_view type) const;
  // What to say of a type that is not there.
  [[nodiscard]] std::string unknown(std::string_view type) const;

 private:
  void load(const std::string& path);

  std::vector<std::string> folders_;
  std::vector<std::unique_ptr<IbnlFile>> files_;
  std::map<std::string, const IbnlFile*, std::less<>> by_type_;
  std::vector<std::string> broken_;  // errors of files that can't be read
};

// "-4X-5G-": what stands between a port and "->". Nothing when it can't be read.
[[nodiscard]] std::optional<LinkLimits> parse_limits(std::string_view text);
// Words between blanks; what follows '#' is left out.
[[nodiscard]] std::vector<std::string_view> words_of(std::string_view line);

// Left and right of "->" in a connection line.
struct Arrow {
  std::string_view port;
  LinkLimits limits;
  std::vector<std::string_view> target;
};
// Nothing when there is no arrow in the line; an error text when what stands before it can't be read.
[[nodiscard]] std::optional<tl::expected<Arrow, std::string>> split_arrow(std::string_view line);

}  // namespace softib::fabric::topo
