#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>

#include "cli/commands/commands.h"
#include "cli/environment.h"
#include "cli/place.h"

namespace softib::cli {

namespace {

struct ShellOptions {
  std::string name = surrounding_fabric();
  std::string host;
};

// Shells that know it show the host's name by themselves; start-up files may have their own prompt.
void set_prompt(HostEnvironment& host, const std::string& shell) {
  const bool is_bash = shell.ends_with("/bash");
  host.variables.push_back({"PS1", is_bash ? "\\u@" + host.host + ":\\w\\$ " : host.host + "$ "});
  if (::isatty(STDOUT_FILENO)) fmt::print("\033]0;{} (softib)\007", host.host);
  std::fflush(stdout);
}

int shell(const ShellOptions& options) {
  auto host = host_environment(options.name, options.host);
  if (!host) return complain(host.error().text, run_failed);
  const char* own = std::getenv("SHELL");
  const std::string program = own && *own ? own : "/bin/sh";
  set_prompt(*host, program);
  return become_on_host(*host, {program});
}

}  // namespace

void add_shell(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<ShellOptions>();
  CLI::App* command = app.add_subcommand("shell", "A shell on a host: $SHELL, with the host's name in its prompt");
  command->footer("Example:\n  softib shell host0");
  add_name(*command, options->name);
  command->add_option("HOST", options->host, "The host")->required()->option_text(" ");
  command->callback([options, &exit_code] { exit_code = shell(*options); });
}

}  // namespace softib::cli
