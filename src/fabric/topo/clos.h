// Folded Clos networks: what stands above the leaves of a fat tree or of rail-optimised units.
//
// Leaves are in pods. In a pod every leaf has the same number of links to every spine. Position s of each pod belongs
// to core group s mod groups, and has the same number of links to every core of the group.
//
//      core   core    core   core        group 0: cores 0, 1      group 1: cores 2, 3
//        |  \/  |       |  \/  |
//        |  /\  |       |  /\  |
//      spine  ...     spine  ...         positions 0 and 1 of pod 0; pod 1 looks the same
//        |   \    ______/  |
//      leaf ... leaf ... leaf
#pragma once

#include <functional>
#include <optional>

#include "fabric/fabric.h"

namespace softib::fabric::topo {

struct Clos {
  u32 radix = 0;
  u32 uplinks = 0;  // of each leaf
  u32 pods = 1;
  u32 leaves_per_pod = 0;  // of a full one
  u32 spines_per_pod = 0;
  u32 spine_uplinks = 0;  // 0: two tiers
  u32 groups = 0;
  u32 cores_per_group = 0;

  [[nodiscard]] u32 bundle() const { return uplinks / spines_per_pod; }  // links from a leaf to a spine
  [[nodiscard]] u32 spines() const { return pods * spines_per_pod; }
  [[nodiscard]] u32 cores() const { return groups * cores_per_group; }
};

// The smallest divisor of `number` that is not below `least`.
[[nodiscard]] std::optional<u32> divisor_from(u32 number, u32 least);

// As few spines as all bundles being equal allows; nothing when there are too many leaves for two tiers.
[[nodiscard]] std::optional<Clos> plan_two_tiers(u32 leaves, u32 uplinks, u32 radix);
// `columns` sets of leaves that share no spines (rails; 1 in a plain tree), each cut into as few pods as will do.
[[nodiscard]] std::optional<Clos> plan_three_tiers(u32 columns, u32 leaves_per_column, u32 uplinks, u32 radix);

struct Naming {
  std::function<std::string(u32 pod, u32 spine)> spine;
  std::function<std::string(u32 core)> core;
};

// Adds spines, cores and all cables above the leaves. `pods` holds the leaves' switch numbers; their uplinks start at
// port `first_uplink`.
void build_above(Fabric& fabric, const Clos& clos, const std::vector<std::vector<u32>>& pods, u32 first_uplink,
                 Speed speed, const Naming& naming);

// "leaf07": as many digits as the last of `count` needs, and at least `digits`.
[[nodiscard]] std::string numbered(std::string_view name, u32 index, u32 count, u32 digits = 1);

// Refuses what would not fit a fabric before anything is made.
[[nodiscard]] Parsed<void> check_size(u64 hosts, u64 hcas_per_host, u64 switches, u32 radix);

}  // namespace softib::fabric::topo
