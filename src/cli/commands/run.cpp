#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "cli/commands/commands.h"
#include "cli/environment.h"
#include "cli/job.h"
#include "cli/many_hosts.h"
#include "cli/place.h"
#include "cli/session_folder.h"

namespace softib::cli {

namespace {

constexpr const char* run_examples =
    R"(On one host the command takes this process's place, so its exit code, signals and streams are its own. On several
hosts it runs on all at once: each word before a -- is one, twice for two programs on it, or 'all' are all of them. A
command with a -- of its own needs another before it. Lines of output begin with the host's name, and the exit code is
the highest. RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR and MASTER_PORT tell each which of them it is
and where they meet, as torchrun does. Otherwise:
  125  softib itself failed (no such fabric or host)
  126  the command cannot be executed
  127  the command was not found

Examples:
  softib run host0 -- ibv_devinfo -v
  softib run --name lab host1 -- ib_send_lat
  softib run host0 host1 -- hostname
  softib run --no-prefix all -- cat /etc/hostname
  softib run all -- python3 train.py)";

struct RunOptions {
  std::string name = surrounding_fabric();
  std::string host;
  std::vector<std::string> command;
  bool no_prefix = false;
};

constexpr std::string_view everybody = "all";

// Which hosts, and what is left for the command.
struct Plan {
  std::vector<std::string> hosts;
  std::vector<std::string> command;
};

std::vector<std::string> all_hosts(const fabric::Fabric& fabric) {
  std::vector<std::string> names;
  for (const fabric::Host& host : fabric.hosts)
    if (host.kind == fabric::HostKind::server) names.push_back(host.name);
  return names;
}

// Words before a "--" are hosts. A command that has one itself needs another before it.
Plan plan_of(const RunOptions& options) {
  Plan plan{{options.host}, options.command};
  const auto dashes = std::find(plan.command.begin(), plan.command.end(), "--");
  if (dashes == plan.command.end()) return plan;
  plan.hosts.insert(plan.hosts.end(), plan.command.begin(), dashes);
  plan.command.erase(plan.command.begin(), dashes + 1);
  return plan;
}

// "all" gives way to the hosts' names, unless there is a host of that name.
fabric::Parsed<void> name_all(Plan& plan, const std::string& dir) {
  if (std::find(plan.hosts.begin(), plan.hosts.end(), everybody) == plan.hosts.end()) return {};
  auto fabric = fabric::load(dir + "/fabric.yaml");
  if (!fabric) return tl::unexpected<fabric::Error>(fabric.error());
  if (fabric::find_host(*fabric, everybody)) return {};
  if (plan.hosts.size() > 1)
    return tl::unexpected(
        fabric::Error{"run: 'all' has every host already; say it alone, or name the hosts, one for each program that "
                      "is to run there"});
  plan.hosts = all_hosts(*fabric);
  return {};
}

fabric::Parsed<std::vector<HostEnvironment>> environments_of(const Plan& plan, const std::string& fabric) {
  std::vector<HostEnvironment> hosts;
  for (const std::string& name : plan.hosts) {
    auto host = host_environment(fabric, name);
    if (!host && !hosts.empty())
      host.error().text += " (each word before -- is a host; a command with a -- of its own needs another before it)";
    if (!host) return tl::unexpected<fabric::Error>(host.error());
    hosts.push_back(std::move(*host));
  }
  return hosts;
}

int run(const RunOptions& options) {
  auto dir = running_folder(options.name);
  if (!dir) return complain(dir.error().text, run_failed);
  Plan plan = plan_of(options);
  if (plan.command.empty()) return complain("run: name a command, as in 'softib run host0 -- ibv_devinfo'", run_failed);
  if (auto named = name_all(plan, *dir); !named) return complain(named.error().text, run_failed);
  auto hosts = environments_of(plan, options.name);
  if (!hosts) return complain(hosts.error().text, run_failed);
  if (hosts->size() == 1 && plan.hosts[0] == options.host) return become_on_host(hosts->front(), plan.command);
  const u32 port = port_of_job();
  for (size_t rank = 0; rank < hosts->size(); ++rank)
    for (Variable& variable : job_variables(plan.hosts, rank, port))
      (*hosts)[rank].variables.push_back(std::move(variable));
  return run_on_many(*hosts, plan.command, options.no_prefix ? Prefix::none : Prefix::host);
}

}  // namespace

void add_run(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<RunOptions>();
  CLI::App* command = app.add_subcommand("run", "Run a program on a host of the fabric, or on several");
  command->footer(run_examples);
  command->positionals_at_end();  // what looks like an option behind HOST belongs to the command
  add_name(*command, options->name);
  command->add_flag("--no-prefix", options->no_prefix, "On several hosts: lines of output as they are");
  command->add_option("HOST", options->host, "The host, or 'all'; further ones where a -- ends them")
      ->required()
      ->option_text(" ");
  command->add_option("COMMAND", options->command, "The program and its arguments, after an optional --")
      ->required()
      ->option_text("...");
  command->callback([options, &exit_code] { exit_code = run(*options); });
}

}  // namespace softib::cli
