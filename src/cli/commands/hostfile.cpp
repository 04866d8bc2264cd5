#include <fmt/format.h>

#include <memory>

#include "cli/commands/commands.h"
#include "cli/environment.h"
#include "cli/launchers.h"
#include "cli/session_folder.h"

namespace softib::cli {

namespace {

struct HostfileOptions {
  std::string name = surrounding_fabric();
  std::string format = "openmpi";
  u32 slots = 0;
};

int hostfile(const HostfileOptions& options) {
  auto dir = running_folder(options.name);
  if (!dir) return complain(dir.error().text);
  auto fabric = fabric::load(*dir + "/fabric.yaml");
  if (!fabric) return complain(fabric.error().text);
  fmt::print("{}", hostfile_text(*fabric, options.slots,
                                 options.format == "mpich" ? HostfileFormat::mpich : HostfileFormat::openmpi));
  return 0;
}

}  // namespace

void add_hostfile(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<HostfileOptions>();
  CLI::App* command = app.add_subcommand("hostfile", "Print the fabric's hosts, for mpirun --hostfile");
  command->footer("Example:\n  softib hostfile --slots 2 >hosts && mpirun --hostfile hosts hostname");
  add_name(*command, options->name);
  command->add_option("--slots", options->slots, "Processes that each host takes");
  command->add_option("--format", options->format, "openmpi ('host0 slots=2') or mpich ('host0:2')")
      ->check(CLI::IsMember({"openmpi", "mpich"}));
  command->callback([options, &exit_code] { exit_code = hostfile(*options); });
}

}  // namespace softib::cli
