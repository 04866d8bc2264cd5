#include <memory>

#include "cli/commands/commands.h"
#include "cli/fault_session.h"

namespace softib::cli {

namespace {

constexpr const char* host_examples =
    R"(  kill, off    the host dies: its programs get SIGKILL, its links go down, its HCAs are gone
  on           its HCAs come back without LIDs, for the subnet manager to find
  reboot       both, with --after TIME in between (default 1s; a number alone: ms)

Where hosts have no namespaces, programs that have not opened an RDMA device are not known to softibd and live on.

Examples:
  softib host host1 kill
  softib host host1 on
  softib host host1 reboot --after 5s)";

struct HostOptions {
  std::string name = "default";
  std::vector<std::string> words;
  std::string after;
};

}  // namespace

void add_host(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<HostOptions>();
  CLI::App* command = app.add_subcommand("host", "Kill a host, switch it on, or let it boot");
  command->footer(host_examples);
  add_name(*command, options->name);
  command->add_option("HOST", options->words, "The host, and what happens to it")
      ->required()
      ->option_text("kill|off|on|reboot");
  command->add_option("--after", options->after, "How long a booting host is away")->option_text("TIME");
  command->callback([options, &exit_code] {
    options->words.insert(options->words.begin(), "host");
    if (!options->after.empty()) options->words.insert(options->words.end(), {"--after", options->after});
    exit_code = do_fault(options->name, options->words);
  });
}

}  // namespace softib::cli
