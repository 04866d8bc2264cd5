#include "fabric/topo/yaml.h"

#include <fmt/format.h>

#include "fabric/complete.h"

namespace softib::fabric::topo {

namespace {

constexpr u32 most = max_hosts;

u32 number(YamlReader& yaml, const YAML::Node& node, const char* key, u32 least, u32 largest, u32 fallback) {
  return static_cast<u32>(yaml.number(node[key], key, least, largest, fallback));
}

// A number that must be there.
u32 needed(YamlReader& yaml, const YAML::Node& node, const char* key, u32 largest) {
  if (!node[key].IsDefined()) yaml.fail(node, fmt::format("this topology needs '{}'", key));
  return number(yaml, node, key, 1, largest, 1);
}

Speed speed(YamlReader& yaml, const YAML::Node& node) {
  std::vector<std::string_view> names;
  for (const SpeedRow& row : speed_table) names.push_back(row.name);
  size_t chosen = yaml.choice(node["speed"], "speed", names, names.size());
  return chosen == names.size() ? Speed::hdr : speed_table[chosen].speed;
}

FatTree fat_tree(YamlReader& yaml, const YAML::Node& node) {
  FatTree tree;
  if (!yaml.check_map(node, "a fat tree", {"kind", "hosts", "hcas", "radix", "tiers", "oversubscription", "speed"}))
    return tree;
  tree.hosts = needed(yaml, node, "hosts", most);
  tree.hcas = number(yaml, node, "hcas", 1, max_hcas_per_host, 1);
  tree.radix = number(yaml, node, "radix", 2, max_switch_ports, tree.radix);
  tree.tiers = number(yaml, node, "tiers", 2, 3, tree.tiers);
  tree.speed = speed(yaml, node);
  if (const YAML::Node text = node["oversubscription"]; text.IsDefined()) {
    auto ratio = parse_ratio(yaml.text(text));
    if (!ratio) yaml.fail(text, fmt::format("'{}' is no ratio; write 3:1 or 3", yaml.text(text).substr(0, 40)));
    std::tie(tree.down, tree.up) = ratio.value_or(std::pair{1U, 1U});
  }
  return tree;
}

Superpod superpod(YamlReader& yaml, const YAML::Node& node) {
  Superpod pod;
  if (!yaml.check_map(node, "a superpod", {"kind", "generation", "units"})) return pod;
  if (!node["generation"].IsDefined()) yaml.fail(node, "this topology needs 'generation'");
  pod.generation = static_cast<Generation>(yaml.choice(node["generation"], "generation", generation_names(), 0));
  pod.units = needed(yaml, node, "units", row_of(pod.generation).most_units);
  return pod;
}

Dragonfly dragonfly(YamlReader& yaml, const YAML::Node& node) {
  Dragonfly fly;
  if (!yaml.check_map(node, "a dragonfly", {"kind", "groups", "routers", "hosts", "global_links", "hcas", "speed"}))
    return fly;
  fly.groups = needed(yaml, node, "groups", most);
  fly.routers = needed(yaml, node, "routers", max_switch_ports);
  fly.hosts = needed(yaml, node, "hosts", max_switch_ports);
  fly.global_links = number(yaml, node, "global_links", 0, max_switch_ports, fly.groups > 1 ? 1 : 0);
  fly.hcas = number(yaml, node, "hcas", 1, max_hcas_per_host, 1);
  fly.speed = speed(yaml, node);
  return fly;
}

}  // namespace

std::optional<std::pair<u32, u32>> parse_ratio(std::string_view text) {
  size_t colon = text.find(':');
  std::optional<u64> down = parse_number(text.substr(0, colon));
  std::optional<u64> up =
      colon == std::string_view::npos ? std::optional<u64>(1) : parse_number(text.substr(colon + 1));
  auto good = [](const std::optional<u64>& part) { return part && *part >= 1 && *part <= max_switch_ports; };
  if (!good(down) || !good(up)) return std::nullopt;
  return std::pair(static_cast<u32>(*down), static_cast<u32>(*up));
}

std::optional<Topology> read_topology(YamlReader& yaml, const YAML::Node& node) {
  if (!node.IsMap()) {
    yaml.fail(node, "a topology is a map, as in {kind: fat-tree, hosts: 128}");
    return std::nullopt;
  }
  const std::vector<std::string_view> kinds{"fat-tree", "superpod", "dragonfly"};
  if (!node["kind"].IsDefined()) yaml.fail(node, "a topology needs 'kind': fat-tree, superpod or dragonfly");
  Topology topology;
  switch (yaml.choice(node["kind"], "kind of topology", kinds, 0)) {
    case 0:
      topology = fat_tree(yaml, node);
      break;
    case 1:
      topology = superpod(yaml, node);
      break;
    default:
      topology = dragonfly(yaml, node);
      break;
  }
  return yaml.ok() ? std::optional(topology) : std::nullopt;
}

}  // namespace softib::fabric::topo
