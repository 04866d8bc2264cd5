#include <fmt/format.h>
#include <fmt/ranges.h>

#include <memory>

#include "cli/commands/commands.h"
#include "cli/fault_session.h"

namespace softib::cli {

namespace {

constexpr const char* counters_examples = R"(PORT is SWITCH:PORT or HOST/HCA:PORT.

  stuck             what perfquery shows stands still, whatever the port sends or is told to clear
  free              the counters go on from where they stood
  add COUNTER N     a counter of errors counts N more

Examples:
  softib counters leaf0:1 stuck
  softib counters leaf0:1 free
  softib counters host0/mlx5_0:1 add symbol_error 100)";

struct CountersOptions {
  std::string name = "default";
  std::vector<std::string> words;
};

}  // namespace

void add_counters(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<CountersOptions>();
  CLI::App* command = app.add_subcommand("counters", "Make a port's counters stick, or count errors");
  command->footer(fmt::format("{}\n\nCounters:\n  {}", counters_examples, fmt::join(fabric::counter_names(), "\n  ")));
  add_name(*command, options->name);
  command->add_option("PORT", options->words, "The port, and what happens to its counters")
      ->required()
      ->option_text("stuck|free|add");
  command->callback([options, &exit_code] {
    options->words.insert(options->words.begin(), "counters");
    exit_code = do_fault(options->name, options->words);
  });
}

}  // namespace softib::cli
