#include <fmt/format.h>

#include <memory>
#include <vector>

#include "cli/commands/commands.h"
#include "cli/environment.h"
#include "cli/place.h"

namespace softib::cli {

namespace {

constexpr const char* examples =
    R"(The command takes this process's place, so its exit code and signals are its own. Otherwise:
  125  softib itself failed (no such fabric or host)
  126  the command cannot be executed
  127  the command was not found

Examples:
  softib run host0 -- ibv_devinfo -v
  softib run --name lab host1 -- ib_send_lat
  softib run host0 -- bash)";

struct Options {
  std::string name = "default";
  std::string host;
  std::vector<std::string> command;
};

int run(const Options& options) {
  auto environment = host_environment(options.name, options.host);
  if (!environment) return complain(environment.error().text, run_failed);
  return become_on_host(*environment, options.command);
}

}  // namespace

void add_run(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("run", "Run a program on a host of the fabric");
  command->footer(examples);
  command->positionals_at_end();  // what looks like an option behind HOST belongs to the command
  add_name(*command, options->name);
  command->add_option("HOST", options->host, "The host")->required()->option_text(" ");
  command->add_option("COMMAND", options->command, "The program and its arguments, after an optional --")
      ->required()
      ->option_text("...");
  command->callback([options, &exit_code] {
    if (options->command.front() == "--") options->command.erase(options->command.begin());
    exit_code = options->command.empty()
                    ? complain("run: name a command, as in 'softib run host0 -- ibv_devinfo'", run_failed)
                    : run(*options);
  });
}

}  // namespace softib::cli
