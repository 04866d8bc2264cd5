#include <fmt/format.h>

#include <array>

#include "fabric/topo/clos.h"
#include "fabric/topo/generate.h"

namespace softib::fabric::topo {

namespace {

constexpr std::array<GenerationRow, 4> generations{{
    {Generation::h100, "h100", 32, 64, 64, 1, Speed::ndr, "connectx-7"},
    {Generation::b200, "b200", 32, 64, 64, 0, Speed::ndr, "connectx-7"},
    {Generation::b300, "b300", 72, 18, 144, 0, Speed::xdr, default_model},
    {Generation::hdr, "hdr", 20, 20, 40, 0, Speed::hdr, "connectx-6"},
}};

std::string unit_name(u32 unit, u32 units) { return numbered("su", unit, units); }

// Leaf k of each unit, in order: switch number unit * rails + k.
void add_leaves(Fabric& fabric, const GenerationRow& row, u32 units) {
  for (u32 unit = 0; unit < units; ++unit)
    for (u32 rail = 0; rail < rails; ++rail)
      fabric.switches.push_back({.name = fmt::format("{}-leaf-rail{}", unit_name(unit, units), rail),
                                 .ports = row.radix,
                                 .speed = row.speed});
}

void add_hosts(Fabric& fabric, const GenerationRow& row, u32 units) {
  u32 count = units * row.hosts_per_unit - row.absent_hosts;
  for (u32 h = 0; h < count; ++h) {
    u32 unit = h / row.hosts_per_unit;
    u32 place = h % row.hosts_per_unit;
    Host host{fmt::format("{}-{}", unit_name(unit, units), numbered("host", place, row.hosts_per_unit, 2)), {}};
    for (u32 rail = 0; rail < rails; ++rail) {
      host.hcas.push_back(
          {.name = fmt::format("mlx5_{}", rail), .model = std::string(row.model), .ports = {Port{.speed = row.speed}}});
      fabric.cables.push_back({{EndKind::hca, h, rail, 1}, {EndKind::sw, unit * rails + rail, 0, place + 1}, {}, {}});
    }
    fabric.hosts.push_back(std::move(host));
  }
}

// Two tiers: one pod of all leaves. Three: the leaves of a rail share spines, in as many pods as it takes.
std::vector<std::vector<u32>> pods_of(const Clos& clos, u32 units) {
  std::vector<std::vector<u32>> pods(clos.pods);
  u32 pods_per_rail = clos.pods / rails;
  for (u32 unit = 0; unit < units; ++unit)
    for (u32 rail = 0; rail < rails; ++rail) {
      u32 pod = clos.spine_uplinks == 0 ? 0 : rail * pods_per_rail + unit / clos.leaves_per_pod;
      pods[pod].push_back(unit * rails + rail);
    }
  return pods;
}

Naming naming_of(const Clos& clos) {
  if (clos.spine_uplinks == 0)
    return {.spine = [&clos](u32, u32 spine) { return numbered("spine", spine, clos.spines()); }, .core = {}};
  u32 pods_per_rail = clos.pods / rails;
  return {.spine =
              [&clos, pods_per_rail](u32 pod, u32 spine) {
                std::string part = pods_per_rail > 1 ? fmt::format("-pod{}", pod % pods_per_rail) : "";
                std::string number = numbered("spine", spine, clos.spines_per_pod, 2);
                return fmt::format("rail{}{}-{}", pod / pods_per_rail, part, number);
              },
          .core = [&clos](u32 core) { return numbered("core", core, clos.cores(), 2); }};
}

}  // namespace

const GenerationRow& row_of(Generation generation) { return generations[static_cast<size_t>(generation)]; }

const std::vector<std::string_view>& generation_names() {
  static const std::vector<std::string_view> names = [] {
    std::vector<std::string_view> result;
    for (const GenerationRow& row : generations) result.push_back(row.name);
    return result;
  }();
  return names;
}

Parsed<Fabric> generate(const Superpod& pod) {
  const GenerationRow& row = row_of(pod.generation);
  if (pod.units < 1 || pod.units > row.most_units)
    return refuse(fmt::format("{} has 1 to {} scalable units, not {}", row.name, row.most_units, pod.units));
  u32 uplinks = row.radix / 2;
  auto clos = plan_two_tiers(pod.units * rails, uplinks, row.radix);
  if (!clos) clos = plan_three_tiers(rails, pod.units, uplinks, row.radix);
  if (!clos) return refuse(fmt::format("{} units of {} can't be joined by three tiers", pod.units, row.name));
  Fabric fabric;
  add_leaves(fabric, row, pod.units);
  add_hosts(fabric, row, pod.units);
  build_above(fabric, *clos, pods_of(*clos, pod.units), row.radix / 2 + 1, row.speed, naming_of(*clos));
  return fabric;
}

}  // namespace softib::fabric::topo
