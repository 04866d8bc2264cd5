#include "aggregation/topology.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <limits>
#include <tuple>

namespace softib::aggregation {

void Topology::add_cable(u16 from, u16 to) {
  const bool from_switch = switches.contains(from);
  const bool to_switch = switches.contains(to);
  if (from_switch && to_switch) {
    switches[from].neighbours.insert(to);
    switches[to].neighbours.insert(from);
  } else if (to_switch) {
    above[from] = to;
  } else if (from_switch) {
    above[to] = from;
  }
}

namespace {

using Distances = std::map<u16, u32>;

Distances distances_from(const Topology& topology, u16 start) {
  Distances distances{{start, 0}};
  std::deque<u16> todo{start};
  while (!todo.empty()) {
    const u16 here = todo.front();
    todo.pop_front();
    for (const u16 next : topology.switches.at(here).neighbours)
      if (distances.emplace(next, distances[here] + 1).second) todo.push_back(next);
  }
  return distances;
}

std::string name_of(const Topology& topology, u16 lid) {
  const auto found = topology.switches.find(lid);
  return found == topology.switches.end() ? fmt::format("LID {}", lid) : found->second.name;
}

// The members by the switches that they hang on.
using Leaves = std::map<u16, std::vector<u32>>;

class Planner {
 public:
  Planner(const Topology& topology, const std::map<u16, Place>& nodes) : topology_(topology), nodes_(nodes) {}

  TreeAnswer plan(const std::vector<u16>& members) {
    if (std::string wrong = find_leaves(members); !wrong.empty()) return {std::nullopt, std::move(wrong)};
    TreeAnswer answer;
    for (const u16 root : roots()) {
      answer = tree_from(root);
      if (answer.tree) return answer;
      if (first_reason_.empty()) first_reason_ = answer.why_not;
    }
    if (first_reason_.empty()) first_reason_ = why_no_root();
    return {std::nullopt, first_reason_};
  }

 private:
  std::string find_leaves(const std::vector<u16>& members) {
    for (u32 i = 0; i < members.size(); ++i) {
      const auto above = topology_.above.find(members[i]);
      if (above == topology_.above.end()) return fmt::format("the port with LID {} hangs on no switch", members[i]);
      if (!nodes_.contains(above->second))
        return fmt::format("switch {}, on which the port with LID {} hangs, has no aggregation node",
                           name_of(topology_, above->second), members[i]);
      leaves_[above->second].push_back(i);
    }
    return leaves_.empty() ? "there are no members" : std::string();
  }

  [[nodiscard]] bool has_room(u16 sw) const {
    const auto node = nodes_.find(sw);
    return node != nodes_.end() && node->second.jobs < node->second.limits.most_jobs;
  }

  // Switches that reach all leaves, the best first: how far the farthest leaf is, how far all are, jobs, LID.
  std::vector<u16> roots() {
    std::vector<std::tuple<u32, u32, u32, u16>> marks;
    for (const auto& [sw, node] : nodes_) {
      if (!topology_.switches.contains(sw)) continue;
      const Distances distances = distances_from(topology_, sw);
      u32 farthest = 0;
      u32 all = 0;
      bool reaches = true;
      for (const auto& [leaf, members] : leaves_) {
        const auto found = distances.find(leaf);
        reaches = reaches && found != distances.end();
        if (!reaches) break;
        farthest = std::max(farthest, found->second);
        all += found->second;
      }
      if (reaches) marks.emplace_back(farthest, all, node.jobs, sw);
    }
    std::sort(marks.begin(), marks.end());
    // A root further away than need be only makes the tree deeper.
    std::vector<u16> best;
    for (const auto& mark : marks)
      if (std::get<0>(mark) == std::get<0>(marks.front())) best.push_back(std::get<3>(mark));
    return best;
  }

  std::string why_no_root() const {
    return fmt::format("no aggregation node reaches the switches of all ranks ({} and {} more)",
                       name_of(topology_, leaves_.begin()->first), leaves_.size() - 1);
  }

  // Level by level from the farthest leaves to the root: each switch of a level goes to a switch one step nearer, those
  // that serve the most first. What is alone below a switch is handed on, so it costs that switch's node nothing.
  TreeAnswer tree_from(u16 root) {
    Tree tree;
    const Distances distances = distances_from(topology_, root);
    u32 level = 0;
    for (const auto& [leaf, members] : leaves_) level = std::max(level, distances.at(leaf));
    std::map<u16, std::vector<u32>> below;  // by switch of the level: vertices that end there
    for (;; --level) {
      for (const auto& [leaf, members] : leaves_)
        if (distances.at(leaf) == level) below[leaf];
      std::map<u16, std::vector<u32>> nearer;
      std::vector<std::pair<u16, u32>> tops;  // switch and vertex
      for (auto& [sw, children] : below) {
        const auto vertex = close(tree, sw, children);
        if (!vertex) return {std::nullopt, full(sw, children.size())};
        tops.emplace_back(sw, *vertex);
      }
      if (level == 0) break;
      assign(tops, distances, level, nearer);
      below = std::move(nearer);
    }
    return {std::move(tree), {}};
  }

  // The vertex in which all of these and the members of that switch come together.
  std::optional<u32> close(Tree& tree, u16 sw, const std::vector<u32>& children) {
    const auto members = leaves_.find(sw);
    if (members == leaves_.end() && children.size() == 1) return children[0];
    const std::size_t count = children.size() + (members == leaves_.end() ? 0 : members->second.size());
    if (!has_room(sw) || count > nodes_.at(sw).limits.most_children) return std::nullopt;
    Tree::Vertex vertex{.node = nodes_.at(sw).lid, .switch_lid = sw};
    if (members != leaves_.end()) vertex.members = members->second;
    vertex.children = children;
    const auto index = static_cast<u32>(tree.vertices.size());
    for (const u32 child : children) tree.vertices[child].parent = index;
    tree.vertices.push_back(std::move(vertex));
    return index;
  }

  void assign(const std::vector<std::pair<u16, u32>>& tops, const Distances& distances, u32 level,
              std::map<u16, std::vector<u32>>& nearer) const {
    std::map<u16, std::vector<std::size_t>> serves;  // nearer switch to places in `tops`
    for (std::size_t i = 0; i < tops.size(); ++i)
      for (const u16 next : topology_.switches.at(tops[i].first).neighbours)
        if (distances.contains(next) && distances.at(next) + 1 == level) serves[next].push_back(i);
    std::vector<bool> assigned(tops.size());
    const auto left = [&](const std::vector<std::size_t>& all) {
      return std::count_if(all.begin(), all.end(), [&](std::size_t i) { return !assigned[i]; });
    };
    for (std::size_t todo = tops.size(); todo > 0;) {
      const auto best = std::max_element(serves.begin(), serves.end(), [&](const auto& a, const auto& b) {
        return std::tuple(left(a.second), has_room(a.first), load(b.first)) <
               std::tuple(left(b.second), has_room(b.first), load(a.first));
      });
      for (const std::size_t i : best->second) {
        if (assigned[i]) continue;
        assigned[i] = true;
        --todo;
        nearer[best->first].push_back(tops[i].second);
      }
    }
  }

  [[nodiscard]] u32 load(u16 sw) const {
    const auto node = nodes_.find(sw);
    return node == nodes_.end() ? 0 : node->second.jobs;
  }

  std::string full(u16 sw, std::size_t children) const {
    const std::string name = name_of(topology_, sw);
    const auto node = nodes_.find(sw);
    if (node == nodes_.end()) return fmt::format("branches meet in switch {}, which has no aggregation node", name);
    if (!has_room(sw))
      return fmt::format("the aggregation node of {} has its {} jobs already", name, node->second.limits.most_jobs);
    const auto members = leaves_.find(sw);
    return fmt::format("the aggregation node of {} would have {} children, of {} that it can have", name,
                       children + (members == leaves_.end() ? 0 : members->second.size()),
                       node->second.limits.most_children);
  }

  const Topology& topology_;
  const std::map<u16, Place>& nodes_;
  Leaves leaves_;
  std::string first_reason_;
};

}  // namespace

TreeAnswer plan_tree(const Topology& topology, const std::map<u16, Place>& node_of_switch,
                     const std::vector<u16>& members) {
  return Planner(topology, node_of_switch).plan(members);
}

std::string text_of(const Tree& tree, const Topology& topology) {
  std::string text;
  for (auto vertex = tree.vertices.rbegin(); vertex != tree.vertices.rend(); ++vertex) {
    if (vertex->members.empty() && vertex->children.empty()) continue;
    std::string parts;
    for (const u32 child : vertex->children)
      parts += fmt::format("{}{}", parts.empty() ? "" : ", ", name_of(topology, tree.vertices[child].switch_lid));
    if (!vertex->members.empty())
      parts += fmt::format("{}{} host{}", parts.empty() ? "" : ", ", vertex->members.size(),
                           vertex->members.size() == 1 ? "" : "s");
    text += fmt::format("{}{} <- {}", text.empty() ? "" : "; ", name_of(topology, vertex->switch_lid), parts);
  }
  return text;
}

}  // namespace softib::aggregation
