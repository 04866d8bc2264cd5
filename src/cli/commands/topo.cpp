#include "cli/commands/commands.h"
#include "cli/topo/commands.h"

namespace softib::cli {

namespace {

constexpr const char* topo_examples = R"(Examples:
  softib topo generate superpod --generation hdr --units 7 -o pod.yaml
  softib topo show pod.yaml
  ibnetdiscover | softib topo convert - -o cluster.yaml
  softib topo check cluster.yaml
  softib topo draw cluster.yaml --svg -o cluster.svg

'softib topo COMMAND --help' tells more about each command.)";

}  // namespace

void add_topo(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand("topo", "Generate, convert, check, draw and count fabrics");
  command->footer(topo_examples);
  command->require_subcommand(1);
  for (auto add : {add_topo_generate, add_topo_convert, add_topo_check, add_topo_draw, add_topo_show})
    add(*command, exit_code);
}

}  // namespace softib::cli
