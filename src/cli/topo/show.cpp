#include <fmt/format.h>

#include "cli/commands/commands.h"
#include "cli/table.h"
#include "cli/topo/commands.h"
#include "fabric/topo/shape.h"

namespace softib::cli {

namespace {

namespace topo = fabric::topo;

constexpr const char* show_examples =
    R"(Tier 1 are the switches that hosts hang on, tier 2 those above them, and so on. DOWN, ACROSS and UP count
cables; the ratio is the bandwidth of those down to that of those up.

Example:
  softib topo show pod.yaml)";

std::string rate_text(u64 mbps) {
  if (mbps >= 1'000'000) return fmt::format("{:.1f} Tb/s", static_cast<double>(mbps) / 1e6);
  return fmt::format("{:.1f} Gb/s", static_cast<double>(mbps) / 1e3);
}

std::string ratio_text(const topo::TierSummary& tier) {
  if (tier.mbps_up == 0) return "-";
  return fmt::format("{:.2f}:1", static_cast<double>(tier.mbps_down) / static_cast<double>(tier.mbps_up));
}

void print_tiers(const topo::Shape& shape) {
  Table table({"TIER", "SWITCHES", "PORTS", "USED", "DOWN", "ACROSS", "UP", "RATIO"});
  for (const topo::TierSummary& tier : shape.tiers)
    table.add({std::to_string(tier.tier), std::to_string(tier.switches), std::to_string(tier.ports),
               std::to_string(tier.used_ports), std::to_string(tier.cables_down), std::to_string(tier.cables_across),
               std::to_string(tier.cables_up), ratio_text(tier)});
  if (!table.empty()) fmt::print("\n{}", table.text());
}

void print_halves(const topo::Shape& shape) {
  if (shape.halves_most_mbps == 0) return;
  fmt::print("\nfrom the first half of the hosts to the second: {}, {:.0f}% of what they can send\n",
             rate_text(shape.halves_mbps),
             100.0 * static_cast<double>(shape.halves_mbps) / static_cast<double>(shape.halves_most_mbps));
}

int show(const TopoInput& input) {
  auto imported = read_input(input, Warnings::print);
  if (!imported) return complain(imported.error().text);
  const fabric::Fabric& fabric = imported->fabric;
  topo::Shape shape = topo::shape_of(fabric);
  fmt::print("fabric '{}', {}\n", fabric.name, fabric::to_string(fabric.link_layer));
  fmt::print("hosts {}, HCAs {}, HCA ports {} ({} cabled), subnets {}\n", shape.servers, shape.hcas, shape.ports,
             shape.cabled_ports, shape.subnets);
  if (shape.aggregation_nodes) fmt::print("aggregation nodes {}\n", shape.aggregation_nodes);
  fmt::print("switches {}, cables {}\n", fabric.switches.size(), shape.cables);
  print_tiers(shape);
  print_halves(shape);
  return 0;
}

}  // namespace

void add_topo_show(CLI::App& parent, int& exit_code) {
  auto input = std::make_shared<TopoInput>();
  CLI::App* command = parent.add_subcommand("show", "Count hosts, switches and cables by tier");
  command->footer(show_examples);
  add_input(*command, *input);
  command->callback([input, &exit_code] { exit_code = show(*input); });
}

}  // namespace softib::cli
