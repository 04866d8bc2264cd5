#include <memory>

#include "cli/commands/commands.h"
#include "cli/fault_session.h"

namespace softib::cli {

namespace {

constexpr const char* switch_examples =
    R"(A switch without power loses its links, its LID, its tables and its counters, and the built-in subnet manager
with it if that sits there. Back on, it waits in INIT for a subnet manager.

Examples:
  softib switch spine0 off
  softib switch spine0 on)";

struct SwitchOptions {
  std::string name = "default";
  std::vector<std::string> words;
};

}  // namespace

void add_switch(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<SwitchOptions>();
  CLI::App* command = app.add_subcommand("switch", "Take a switch's power, or give it back");
  command->footer(switch_examples);
  add_name(*command, options->name);
  command->add_option("SWITCH", options->words, "The switch, and off or on")->required()->option_text("off|on");
  command->callback([options, &exit_code] {
    options->words.insert(options->words.begin(), "switch");
    exit_code = do_fault(options->name, options->words);
  });
}

}  // namespace softib::cli
