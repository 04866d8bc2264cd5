#include "fabric/topo/generate.h"

#include <fmt/format.h>

#include "cli/commands/commands.h"
#include "cli/topo/commands.h"
#include "fabric/topo/yaml.h"

namespace softib::cli {

namespace {

namespace topo = fabric::topo;

constexpr const char* generate_examples = R"(Examples:
  softib topo generate fat-tree --hosts 128 --radix 40 -o tree.yaml
  softib topo generate superpod --generation h100 --units 4 -o pod.yaml
  softib topo generate dragonfly --groups 9 --routers 4 --hosts 2 --global-links 2 --to ibnetdiscover)";

// What all kinds have in common.
struct Output {
  std::string name = "default";
  std::string file;
  std::string to;
  bool aggregation = false;
};

void add_output_options(CLI::App& kind, Output& output) {
  add_name(kind, output.name);
  add_output(kind, output.file);
  add_to(kind, output.to);
  kind.add_flag("--aggregation", output.aggregation, "Give each switch an aggregation node, for in-network reduction");
}

int generate(const topo::Topology& topology, const Output& output) {
  auto made = topo::generate(topology);
  if (!made) return complain(made.error().text);
  made->name = output.name;
  for (fabric::Switch& sw : made->switches) sw.aggregation = output.aggregation;
  auto fabric = fabric::complete(*std::move(made));
  if (!fabric) return complain(fabric.error().text);
  return write_output(output.file, in_form(output.to, *fabric));
}

void add_speed(CLI::App& kind, fabric::Speed& speed) {
  kind.add_option_function<std::string>(
          "--speed",
          [&speed](const std::string& text) {
            auto parsed = fabric::speed_from_name(text);
            if (!parsed) throw CLI::ValidationError("--speed", fmt::format("'{}' is no speed", text));
            speed = *parsed;
          },
          "SDR, DDR, QDR, FDR10, FDR, EDR, HDR (default), NDR or XDR")
      ->option_text("SPEED");
}

void add_fat_tree(CLI::App& parent, int& exit_code) {
  struct Options {
    topo::FatTree tree;
    Output output;
  };
  auto options = std::make_shared<Options>();
  topo::FatTree& tree = options->tree;
  CLI::App* kind = parent.add_subcommand("fat-tree", "Leaves, spines and, with three tiers, cores");
  kind->add_option("--hosts", tree.hosts, "Number of hosts")->required()->option_text("N");
  kind->add_option("--hcas", tree.hcas, "HCAs of each host (default 1)")->option_text("N");
  kind->add_option("--radix", tree.radix, "Ports of a switch (default 40)")->option_text("N");
  kind->add_option("--tiers", tree.tiers, "2 (default) or 3")->option_text("N");
  kind->add_option_function<std::string>(
          "--oversubscription",
          [&tree](const std::string& text) {
            auto ratio = topo::parse_ratio(text);
            if (!ratio)
              throw CLI::ValidationError("--oversubscription", fmt::format("'{}' is no ratio; write 3:1", text));
            std::tie(tree.down, tree.up) = *ratio;
          },
          "Ports of a leaf to hosts : to spines (default 1:1)")
      ->option_text("RATIO");
  add_speed(*kind, tree.speed);
  add_output_options(*kind, options->output);
  kind->callback([options, &exit_code] { exit_code = generate(options->tree, options->output); });
}

void add_superpod(CLI::App& parent, int& exit_code) {
  struct Options {
    topo::Superpod pod;
    std::string generation;
    Output output;
  };
  auto options = std::make_shared<Options>();
  CLI::App* kind = parent.add_subcommand("superpod", "Rail-optimised scalable units of hosts with 8 HCAs");
  kind->add_option("--generation", options->generation, "h100, b200, b300 or hdr")
      ->required()
      ->check(CLI::IsMember({"h100", "b200", "b300", "hdr"}))
      ->option_text("NAME");
  kind->add_option("--units", options->pod.units, "Number of scalable units")->required()->option_text("N");
  add_output_options(*kind, options->output);
  kind->callback([options, &exit_code] {
    const auto& names = topo::generation_names();
    auto found = std::find(names.begin(), names.end(), options->generation);
    options->pod.generation = static_cast<topo::Generation>(found - names.begin());
    exit_code = generate(options->pod, options->output);
  });
}

void add_dragonfly(CLI::App& parent, int& exit_code) {
  struct Options {
    topo::Dragonfly fly{.global_links = 1};
    Output output;
  };
  auto options = std::make_shared<Options>();
  topo::Dragonfly& fly = options->fly;
  CLI::App* kind = parent.add_subcommand("dragonfly", "Groups of routers, all-to-all inside and between groups");
  kind->add_option("--groups", fly.groups, "Number of groups")->required()->option_text("N");
  kind->add_option("--routers", fly.routers, "Routers of each group")->required()->option_text("N");
  kind->add_option("--hosts", fly.hosts, "Hosts of each router")->required()->option_text("N");
  kind->add_option("--global-links", fly.global_links, "Links of each router to other groups (default 1)")
      ->option_text("N");
  kind->add_option("--hcas", fly.hcas, "HCAs of each host (default 1)")->option_text("N");
  add_speed(*kind, fly.speed);
  add_output_options(*kind, options->output);
  kind->callback([options, &exit_code] { exit_code = generate(options->fly, options->output); });
}

}  // namespace

void add_topo_generate(CLI::App& parent, int& exit_code) {
  CLI::App* command = parent.add_subcommand("generate", "Write the description of a cluster of some kind and size");
  command->footer(generate_examples);
  command->require_subcommand(1);
  add_fat_tree(*command, exit_code);
  add_superpod(*command, exit_code);
  add_dragonfly(*command, exit_code);
}

}  // namespace softib::cli
