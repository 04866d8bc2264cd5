#include <memory>

#include "cli/commands/commands.h"
#include "cli/fault_session.h"
#include "cli/interrupts.h"
#include "cli/session_folder.h"
#include "cli/stock_managers.h"

namespace softib::cli {

namespace {

constexpr const char* aggregation_examples =
    R"(  kill       softib-aggregation dies without a word on all aggregation nodes: they answer management only
  restart    it starts anew, dead or not, and knows of no job; returns once it is ready

Examples:
  softib aggregation kill
  softib aggregation restart)";

struct AggregationOptions {
  std::string name = "default";
  std::vector<std::string> words;
};

// As `softib up`: what is typed next finds the manager.
int wait_until_ready(const std::string& name) {
  auto dir = running_folder(name);
  if (!dir) return complain(dir.error().text);
  auto fabric = fabric::load(*dir + "/fabric.yaml");
  if (!fabric) return complain(fabric.error().text);
  Interrupts interrupts;
  const auto ready = wait_for_aggregation(*fabric, *dir, interrupts);
  if (interrupts.signal() != 0) interrupts.die();
  return ready ? 0 : complain(ready.error().text);
}

int change_program(const AggregationOptions& options) {
  std::vector<std::string> words{"aggregation"};
  words.insert(words.end(), options.words.begin(), options.words.end());
  if (const int code = do_fault(options.name, words); code != 0) return code;
  return options.words == std::vector<std::string>{"restart"} ? wait_until_ready(options.name) : 0;
}

}  // namespace

void add_aggregation(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<AggregationOptions>();
  CLI::App* command = app.add_subcommand("aggregation", "Kill the program of the aggregation nodes, or start it anew");
  command->footer(aggregation_examples);
  add_name(*command, options->name);
  command->add_option("ACTION", options->words, "kill or restart")->required()->option_text("kill|restart");
  command->callback([options, &exit_code] { exit_code = change_program(*options); });
}

}  // namespace softib::cli
