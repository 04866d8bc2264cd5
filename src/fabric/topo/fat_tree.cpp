#include <fmt/format.h>

#include "fabric/topo/clos.h"
#include "fabric/topo/generate.h"

namespace softib::fabric::topo {

namespace {

struct Leaves {
  u32 count = 0;
  u32 down = 0;  // ports of each to hosts
  u32 up = 0;
};

Parsed<Leaves> plan_leaves(const FatTree& tree) {
  if (tree.tiers != 2 && tree.tiers != 3) return refuse(fmt::format("a fat tree has 2 or 3 tiers, not {}", tree.tiers));
  if (tree.down == 0 || tree.up == 0) return refuse("neither part of the oversubscription can be 0");
  u64 parts = static_cast<u64>(tree.down) + tree.up;
  u32 each = static_cast<u32>(tree.radix / parts);
  if (each == 0)
    return refuse(fmt::format("a leaf with {} ports can't split them {}:{}", tree.radix, tree.down, tree.up));
  Leaves leaves{.down = each * tree.down, .up = each * tree.up};
  u64 ends = static_cast<u64>(tree.hosts) * tree.hcas;
  leaves.count = static_cast<u32>((ends + leaves.down - 1) / leaves.down);
  return leaves;
}

u32 add_leaves(Fabric& fabric, const FatTree& tree, const Leaves& leaves, u32 per_pod) {
  u32 pods = (leaves.count + per_pod - 1) / per_pod;
  for (u32 leaf = 0; leaf < leaves.count; ++leaf) {
    std::string name = tree.tiers == 2 ? numbered("leaf", leaf, leaves.count)
                                       : fmt::format("{}-{}", numbered("pod", leaf / per_pod, pods),
                                                     numbered("leaf", leaf % per_pod, per_pod));
    fabric.switches.push_back({.name = std::move(name), .ports = tree.radix, .speed = tree.speed});
  }
  return pods;
}

void add_hosts(Fabric& fabric, const FatTree& tree, u32 down) {
  u32 place = 0;  // among the ports of all leaves
  for (u32 h = 0; h < tree.hosts; ++h) {
    Host host{fmt::format("host{}", h), {}};
    for (u32 d = 0; d < tree.hcas; ++d, ++place) {
      host.hcas.push_back({.name = fmt::format("mlx5_{}", d), .ports = {Port{.speed = tree.speed}}});
      fabric.cables.push_back({{EndKind::hca, h, d, 1}, {EndKind::sw, place / down, 0, place % down + 1}, {}, {}});
    }
    fabric.hosts.push_back(std::move(host));
  }
}

tl::unexpected<Error> too_large(const FatTree& tree, const Leaves& leaves) {
  return refuse(fmt::format("{} HCAs need {} leaves of {} ports; {} tiers of such switches can't join them{}",
                            tree.hosts * tree.hcas, leaves.count, tree.radix, tree.tiers,
                            tree.tiers == 2 ? "; use 3 tiers or a larger radix" : "; use a larger radix"));
}

}  // namespace

Parsed<Fabric> generate(const FatTree& tree) {
  if (auto check = check_size(tree.hosts, tree.hcas, 0, tree.radix); !check)
    return tl::unexpected<Error>(check.error());
  auto leaves = plan_leaves(tree);
  if (!leaves) return tl::unexpected<Error>(leaves.error());
  auto clos = tree.tiers == 2 ? plan_two_tiers(leaves->count, leaves->up, tree.radix)
                              : plan_three_tiers(1, leaves->count, leaves->up, tree.radix);
  if (!clos) return too_large(tree, *leaves);
  u64 switches = static_cast<u64>(leaves->count) + clos->spines() + clos->cores();
  if (auto check = check_size(tree.hosts, tree.hcas, switches, tree.radix); !check)
    return tl::unexpected<Error>(check.error());
  Fabric fabric;
  u32 pod_count = add_leaves(fabric, tree, *leaves, clos->leaves_per_pod);
  add_hosts(fabric, tree, leaves->down);
  std::vector<std::vector<u32>> pods(pod_count);
  for (u32 leaf = 0; leaf < leaves->count; ++leaf) pods[leaf / clos->leaves_per_pod].push_back(leaf);
  Naming naming{
      .spine =
          [&](u32 pod, u32 spine) {
            std::string name = numbered("spine", spine, clos->spines_per_pod);
            return tree.tiers == 2 ? name : fmt::format("{}-{}", numbered("pod", pod, pod_count), name);
          },
      .core = [&](u32 core) { return numbered("core", core, clos->cores()); },
  };
  build_above(fabric, *clos, pods, leaves->down + 1, tree.speed, naming);
  return fabric;
}

Parsed<Fabric> generate(const Topology& topology) {
  return std::visit([](const auto& kind) { return generate(kind); }, topology);
}

}  // namespace softib::fabric::topo
