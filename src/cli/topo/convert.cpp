#include "cli/commands/commands.h"
#include "cli/topo/commands.h"

namespace softib::cli {

namespace {

constexpr const char* convert_examples = R"(What SoftIB can't represent is left out, with a warning on stderr for each.

Examples:
  ibnetdiscover | softib topo convert - -o cluster.yaml
  softib topo convert cluster.topo --name rehearsal -o rehearsal.yaml
  softib topo convert pod.yaml --to ibnetdiscover > pod.net)";

struct ConvertOptions {
  TopoInput input;
  std::string name;
  std::string output;
  std::string to;
};

int convert(const ConvertOptions& options) {
  auto imported = read_input(options.input, Warnings::print);
  if (!imported) return complain(imported.error().text);
  if (!options.name.empty()) imported->fabric.name = options.name;
  return write_output(options.output, in_form(options.to, imported->fabric));
}

}  // namespace

void add_topo_convert(CLI::App& parent, int& exit_code) {
  auto options = std::make_shared<ConvertOptions>();
  CLI::App* command = parent.add_subcommand(
      "convert",
      "Turn the output of ibnetdiscover, ibsim's or ibutils' files or YAML into YAML or ibnetdiscover's form");
  command->footer(convert_examples);
  add_input(*command, options->input);
  add_to(*command, options->to);
  add_name(*command, options->name)->description("Name of the fabric, over the file's");
  add_output(*command, options->output);
  command->callback([options, &exit_code] { exit_code = convert(*options); });
}

}  // namespace softib::cli
