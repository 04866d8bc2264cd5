#include <fmt/format.h>

#include <algorithm>

#include "cli/commands/commands.h"
#include "cli/topo/commands.h"
#include "fabric/topo/shape.h"

namespace softib::cli {

namespace {

constexpr const char* check_examples =
    R"(Exit code 0: the file describes a fabric; 1: it does not, and the first fault is named with its line.
With --strict, 1 also for what is allowed and seldom meant: what a conversion leaves out, ports without
cables, several subnets, links that run below both ends, switches with fewer uplinks than their like.

Examples:
  softib topo check lab.yaml
  ibnetdiscover | softib topo check --strict -)";

struct CheckOptions {
  TopoInput input;
  bool strict = false;
};

int check(const CheckOptions& options) {
  auto imported = read_input(options.input, Warnings::leave);
  if (!imported) return complain(imported.error().text);
  std::vector<std::string> notes = imported->warnings;
  for (std::string& oddity : fabric::topo::oddities(imported->fabric)) notes.push_back(std::move(oddity));
  for (const std::string& note : notes) fmt::print("note: {}\n", note);
  const fabric::Fabric& fabric = imported->fabric;
  const auto hosts = std::count_if(fabric.hosts.begin(), fabric.hosts.end(),
                                   [](const fabric::Host& host) { return host.kind == fabric::HostKind::server; });
  fmt::print("{}: hosts {}, switches {}, cables {}{}\n", options.input.file == "-" ? "stdin" : options.input.file,
             hosts, fabric.switches.size(), fabric.cables.size(), notes.empty() ? "; nothing to note" : "");
  return options.strict && !notes.empty() ? 1 : 0;
}

}  // namespace

void add_topo_check(CLI::App& parent, int& exit_code) {
  auto options = std::make_shared<CheckOptions>();
  CLI::App* command = parent.add_subcommand("check", "Say what is wrong with a description, or odd about it");
  command->footer(check_examples);
  add_input(*command, options->input);
  command->add_flag("--strict", options->strict, "Odd is wrong");
  command->callback([options, &exit_code] { exit_code = check(*options); });
}

}  // namespace softib::cli
