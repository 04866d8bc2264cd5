#include <memory>

#include "cli/commands/commands.h"
#include "cli/fault_session.h"

namespace softib::cli {

namespace {

constexpr const char* aggregation_examples =
    R"(  kill       softib-aggregation dies without a word on all aggregation nodes: they answer management only
  restart    it starts anew, dead or not, and knows of no job

Examples:
  softib aggregation kill
  softib aggregation restart)";

struct AggregationOptions {
  std::string name = "default";
  std::vector<std::string> words;
};

}  // namespace

void add_aggregation(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<AggregationOptions>();
  CLI::App* command = app.add_subcommand("aggregation", "Kill the program of the aggregation nodes, or start it anew");
  command->footer(aggregation_examples);
  add_name(*command, options->name);
  command->add_option("ACTION", options->words, "kill or restart")->required()->option_text("kill|restart");
  command->callback([options, &exit_code] {
    options->words.insert(options->words.begin(), "aggregation");
    exit_code = do_fault(options->name, options->words);
  });
}

}  // namespace softib::cli
