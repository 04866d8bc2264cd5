#include "fabric/topo/clos.h"

#include <fmt/format.h>

#include <algorithm>

#include "fabric/complete.h"
#include "fabric/error.h"

namespace softib::fabric::topo {

namespace {

u32 ceiling(u64 a, u64 b) { return static_cast<u32>((a + b - 1) / b); }

CableEnd at(u32 sw, u32 port) { return {EndKind::sw, sw, 0, port}; }

// How the spines' uplinks reach the cores with fewest cores: `groups` and `cores_per_group` of `clos`.
bool plan_cores(Clos& clos) {
  u32 best = ~0U;
  for (u32 groups = 1; groups <= clos.spines_per_pod; ++groups) {
    if (clos.spines_per_pod % groups != 0) continue;
    u64 links = static_cast<u64>(clos.spines_per_pod / groups) * clos.pods * clos.spine_uplinks;
    std::optional<u32> cores = divisor_from(clos.spine_uplinks, ceiling(links, clos.radix));
    if (!cores || groups * *cores >= best) continue;
    best = groups * *cores;
    clos.groups = groups;
    clos.cores_per_group = *cores;
  }
  return best != ~0U;
}

u32 add_switch(Fabric& fabric, std::string name, u32 ports, Speed speed) {
  fabric.switches.push_back({.name = std::move(name), .ports = ports, .speed = speed});
  return static_cast<u32>(fabric.switches.size()) - 1;
}

void cable_leaves(Fabric& fabric, const Clos& clos, const std::vector<u32>& leaves, u32 first_spine, u32 first_uplink) {
  for (u32 leaf = 0; leaf < leaves.size(); ++leaf)
    for (u32 link = 0; link < clos.uplinks; ++link) {
      u32 spine = link / clos.bundle();
      u32 port = leaf * clos.bundle() + link % clos.bundle() + 1;
      fabric.cables.push_back({at(leaves[leaf], first_uplink + link), at(first_spine + spine, port), {}, {}});
    }
}

void cable_spines(Fabric& fabric, const Clos& clos, u32 pod, u32 first_spine, u32 first_core) {
  u32 first_port = clos.leaves_per_pod * clos.bundle() + 1;
  u32 links = clos.spine_uplinks / clos.cores_per_group;  // from a spine to a core
  for (u32 spine = 0; spine < clos.spines_per_pod; ++spine) {
    u32 group = spine % clos.groups;
    u32 place = pod * (clos.spines_per_pod / clos.groups) + spine / clos.groups;  // among the spines of the group
    for (u32 link = 0; link < clos.spine_uplinks; ++link) {
      u32 core = first_core + group * clos.cores_per_group + link / links;
      u32 port = place * links + link % links + 1;
      fabric.cables.push_back({at(first_spine + spine, first_port + link), at(core, port), {}, {}});
    }
  }
}

}  // namespace

std::optional<u32> divisor_from(u32 number, u32 least) {
  for (u32 divisor = std::max(least, 1U); divisor <= number; ++divisor)
    if (number % divisor == 0) return divisor;
  return std::nullopt;
}

std::optional<Clos> plan_two_tiers(u32 leaves, u32 uplinks, u32 radix) {
  std::optional<u32> spines = divisor_from(uplinks, ceiling(static_cast<u64>(leaves) * uplinks, radix));
  if (!spines) return std::nullopt;
  return Clos{.radix = radix, .uplinks = uplinks, .leaves_per_pod = leaves, .spines_per_pod = *spines};
}

std::optional<Clos> plan_three_tiers(u32 columns, u32 leaves_per_column, u32 uplinks, u32 radix) {
  u32 down = radix / 2;  // of a spine
  if (down == 0) return std::nullopt;
  u32 pods = ceiling(leaves_per_column, down);
  u32 leaves = ceiling(leaves_per_column, pods);
  pods = ceiling(leaves_per_column, leaves);
  std::optional<u32> spines = divisor_from(uplinks, ceiling(static_cast<u64>(leaves) * uplinks, down));
  if (!spines) return std::nullopt;
  Clos clos{.radix = radix,
            .uplinks = uplinks,
            .pods = columns * pods,
            .leaves_per_pod = leaves,
            .spines_per_pod = *spines,
            .spine_uplinks = leaves * (uplinks / *spines)};
  return plan_cores(clos) ? std::optional(clos) : std::nullopt;
}

void build_above(Fabric& fabric, const Clos& clos, const std::vector<std::vector<u32>>& pods, u32 first_uplink,
                 Speed speed, const Naming& naming) {
  auto first_spine = static_cast<u32>(fabric.switches.size());
  for (u32 pod = 0; pod < clos.pods; ++pod)
    for (u32 spine = 0; spine < clos.spines_per_pod; ++spine)
      add_switch(fabric, naming.spine(pod, spine), clos.radix, speed);
  auto first_core = static_cast<u32>(fabric.switches.size());
  for (u32 core = 0; core < clos.cores(); ++core) add_switch(fabric, naming.core(core), clos.radix, speed);
  for (u32 pod = 0; pod < clos.pods; ++pod)
    cable_leaves(fabric, clos, pods[pod], first_spine + pod * clos.spines_per_pod, first_uplink);
  if (clos.spine_uplinks == 0) return;
  for (u32 pod = 0; pod < clos.pods; ++pod)
    cable_spines(fabric, clos, pod, first_spine + pod * clos.spines_per_pod, first_core);
}

std::string numbered(std::string_view name, u32 index, u32 count, u32 digits) {
  size_t width = std::max<size_t>(digits, std::to_string(count ? count - 1 : 0).size());
  return fmt::format("{}{:0{}}", name, index, width);
}

Parsed<void> check_size(u64 hosts, u64 hcas_per_host, u64 switches, u32 radix) {
  if (hcas_per_host < 1 || hcas_per_host > max_hcas_per_host)
    return refuse(fmt::format("a host has 1 to {} HCAs, not {}", max_hcas_per_host, hcas_per_host));
  if (hosts < 1 || hosts * hcas_per_host >= ipc::max_devices)
    return refuse(fmt::format("{} hosts with {} HCAs each; a fabric has 1 to {} HCAs", hosts, hcas_per_host,
                              ipc::max_devices - 1));
  if (switches > max_switches) return refuse(fmt::format("{} switches; {} is the limit", switches, max_switches));
  if (radix < 1 || radix > max_switch_ports)
    return refuse(fmt::format("a switch has 1 to {} ports, not {}", max_switch_ports, radix));
  return {};
}

}  // namespace softib::fabric::topo
