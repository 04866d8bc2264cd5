#include <fmt/format.h>

#include <memory>

#include "cli/commands/commands.h"
#include "cli/environment.h"

namespace softib::cli {

namespace {

constexpr const char* examples =
    "Examples:\n"
    "  eval \"$(softib env host0)\"                     this shell is on host0 now\n"
    "  eval \"$(softib env --unset)\"                   and now no more\n"
    "  softib env host0 --plain >> \"$GITHUB_ENV\"      for the following steps of a CI job";

struct Options {
  std::string name = "default";
  std::string host;
  bool unset = false;
  bool plain = false;
};

// The variables as shell commands, or as NAME=VALUE lines (an unset one gets an empty value).
void print_variables(const std::vector<Variable>& variables, bool plain) {
  for (const Variable& variable : variables) {
    if (plain)
      fmt::print("{}={}\n", variable.name, variable.value.value_or(""));
    else if (variable.value)
      fmt::print("export {}={}\n", variable.name, shell_quoted(*variable.value));
    else
      fmt::print("unset {}\n", variable.name);
  }
}

int env(const Options& options) {
  if (options.unset) {
    print_variables(outside_environment(), options.plain);
    return 0;
  }
  if (options.host.empty()) return complain("env: name a host, as in 'softib env host0', or say --unset", 2);
  auto variables = host_environment(options.name, options.host);
  if (!variables) return complain(variables.error().text);
  print_variables(variables->variables, options.plain);
  return 0;
}

}  // namespace

void add_env(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("env", "Print the environment of a host, for a shell's eval");
  command->footer(examples);
  CLI::Option* host = command->add_option("HOST", options->host, "The host")->option_text(" ");
  add_name(*command, options->name);
  command->add_flag("--unset", options->unset, "Print what takes the environment away again")->excludes(host);
  command->add_flag("--plain", options->plain, "NAME=VALUE lines instead of shell commands");
  command->callback([options, &exit_code] { exit_code = env(*options); });
}

}  // namespace softib::cli
