// The subnet as far as trees need it: switches and the cables between them, aggregation nodes, and where ports hang.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/types.h"

namespace softib::aggregation {

struct Topology {
  struct Switch {
    std::string name;
    std::set<u16> neighbours;  // LIDs of switches
  };
  std::map<u16, Switch> switches;  // by LID
  std::map<u16, u16> above;        // end ports' LIDs to the LID of the switch that they hang on

  // A record of a node, and one of a cable, each by LIDs.
  void add_switch(u16 lid, std::string name) { switches[lid].name = std::move(name); }
  void add_cable(u16 from, u16 to);
};

struct TreeLimits {
  u32 most_children = 0;  // of a node
  u32 most_jobs = 0;      // of a node
};

// An aggregation node that can be had.
struct Place {
  u16 lid = 0;
  u32 jobs = 0;  // that it has
  TreeLimits limits;
};

// Nodes stand in the order from the leaves to the root, so each one's children stand before it.
struct Tree {
  struct Vertex {
    u16 node = 0;  // LID of the aggregation node
    u16 switch_lid = 0;
    std::optional<u32> parent{};  // an index of vertices
    std::vector<u32> members{};   // indices of the ports that were asked for
    std::vector<u32> children{};  // indices of vertices
  };
  std::vector<Vertex> vertices;

  [[nodiscard]] const Vertex& root() const { return vertices.back(); }
};

struct TreeAnswer {
  std::optional<Tree> tree;
  std::string why_not;  // for people, with names
};

// The tree of a job whose members are at those ports. Each member's segments go to the node of its own switch. The root
// is as near to all of these as any can be; of equals the one with the fewest jobs. Nodes between them and the root
// take part only where branches meet.
[[nodiscard]] TreeAnswer plan_tree(const Topology& topology, const std::map<u16, Place>& node_of_switch,
                                   const std::vector<u16>& members);

// "spine0 <- leaf0 (4 ranks), leaf1 (4 ranks)"
[[nodiscard]] std::string text_of(const Tree& tree, const Topology& topology);

}  // namespace softib::aggregation
