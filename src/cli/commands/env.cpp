#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>

#include <memory>

#include "base/release.h"
#include "cli/commands/commands.h"
#include "cli/environment.h"
#include "cli/session_folder.h"
#include "cli/status_query.h"

namespace softib::cli {

namespace {

constexpr const char* env_examples =
    "Without a host: what mpirun and its like need to start processes on the fabric's hosts. With one, this shell "
    "sees\n"
    "the host's devices; network, name and files stay the machine's. 'softib shell HOST' goes to the host itself.\n"
    "\n"
    "Examples:\n"
    "  eval \"$(softib env)\"                           mpirun -H host0,host1 works in this shell\n"
    "  eval \"$(softib env host0)\"                     this shell is on host0 now\n"
    "  eval \"$(softib env --unset)\"                   and now no more\n"
    "  softib env host0 --plain >> \"$GITHUB_ENV\"      for the following steps of a CI job";

struct EnvOptions {
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

bool has_address_beside_loopback() {
  ifaddrs* all = nullptr;
  if (::getifaddrs(&all) < 0) return true;  // nothing is known against it
  const std::unique_ptr<ifaddrs, Release<::freeifaddrs>> list(all);
  for (const ifaddrs* one = all; one; one = one->ifa_next)
    if (one->ifa_addr && one->ifa_addr->sa_family == AF_INET && !(one->ifa_flags & IFF_LOOPBACK)) return true;
  return false;
}

// Launchers' daemons on hosts report to an address of the machine, and loopback is each host's own.
void tell_of_loopback(const std::string& fabric) {
  auto folder = running_folder(fabric);
  if (!folder || has_address_beside_loopback()) return;
  auto status = query_status(*folder);
  if (!status || (*status)["namespaces"].value("kind", "") != "namespaces") return;
  fmt::print(stderr,
             "softib: note: this machine has no address but loopback, by which hosts don't find Open MPI's mpirun: "
             "start it on a host ('softib run host0 -- mpirun ...')\n");
}

int env(const EnvOptions& options) {
  if (options.unset) {
    print_variables(outside_environment(), options.plain);
    return 0;
  }
  if (options.host.empty()) {
    auto variables = launching_environment(options.name);
    if (!variables) return complain(variables.error().text);
    print_variables(*variables, options.plain);
    tell_of_loopback(options.name);
    return 0;
  }
  auto host = host_environment(options.name, options.host);
  if (!host) return complain(host.error().text);
  print_variables(host->variables, options.plain);
  return 0;
}

}  // namespace

void add_env(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<EnvOptions>();
  CLI::App* command =
      app.add_subcommand("env", "Print the environment of a host, or of job launchers, for a shell's eval");
  command->footer(env_examples);
  CLI::Option* host = command->add_option("HOST", options->host, "The host")->option_text(" ");
  add_name(*command, options->name);
  command->add_flag("--unset", options->unset, "Print what takes the environment away again")->excludes(host);
  command->add_flag("--plain", options->plain, "NAME=VALUE lines instead of shell commands");
  command->callback([options, &exit_code] { exit_code = env(*options); });
}

}  // namespace softib::cli
