#include <fmt/format.h>

#include "cli/commands/commands.h"
#include "cli/daemon_process.h"
#include "cli/table.h"
#include "fabric/runtime.h"

namespace softib::cli {

namespace {

int list() {
  std::string runtime = fabric::runtime_dir();
  Table table({"FABRIC", "STATE", "DAEMON", "HOSTS", "LINK LAYER"});
  for (const std::string& name : fabric::fabrics_in(runtime)) {
    std::string dir = fabric::fabric_dir(name);
    bool running = fabric::liveness(dir) == fabric::Liveness::running;
    auto description = fabric::load(dir + "/fabric.yaml");
    auto pid = running ? daemon_pid(dir) : std::nullopt;
    table.add({name, running ? "running" : "died", pid ? std::to_string(*pid) : "-",
               description ? std::to_string(description->hosts.size()) : "-",
               description ? std::string(fabric::to_string(description->link_layer)) : "-"});
  }
  if (table.empty())
    fmt::print("no fabric is running (in {})\n", runtime);
  else
    fmt::print("{}", table.text());
  return 0;
}

}  // namespace

void add_list(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand("list", "List this user's fabrics");
  command->footer("Example:\n  softib list");
  command->callback([&exit_code] { exit_code = list(); });
}

}  // namespace softib::cli
