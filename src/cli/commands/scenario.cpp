#include <fmt/format.h>

#include <memory>

#include "cli/commands/commands.h"
#include "cli/scenario_run.h"

namespace softib::cli {

namespace {

constexpr const char* scenario_examples =
    R"(A scenario is a YAML file (docs/scenarios.md):

  until: 60s
  steps:
    - {at: 2s, do: link leaf0:1 down, for: 5s}
    - {every: 500ms..2s, do: link any leaf flap}

What is done is printed with its time. The same seed gives the same faults at the same times.

Examples:
  softib scenario bad-day.yaml
  softib scenario bad-day.yaml --seed 7 --undo
  softib scenario bad-day.yaml --dry-run)";

struct ScenarioWords {
  std::string name = "default";
  std::string file;
  std::optional<u64> seed;
  std::string until;
  bool undo = false;
  bool dry_run = false;
};

bool goes_on_for_ever(const fabric::Scenario& scenario) {
  return scenario.until == fabric::no_time &&
         std::any_of(scenario.steps.begin(), scenario.steps.end(), [](const fabric::ScenarioStep& step) {
           return step.every_most != 0 && step.until == fabric::no_time;
         });
}

int scenario(const ScenarioWords& options) {
  auto session = FaultSession::open(options.name);
  if (!session) return complain(session.error().text);
  auto loaded = fabric::load_scenario(session->fabric(), options.file);
  if (!loaded) return complain(loaded.error().text);
  if (!options.until.empty()) {
    auto until = fabric::parse_time(options.until);
    if (!until) return complain("scenario: --until: " + until.error().text, 2);
    loaded->until = *until;
  }
  if (options.dry_run && goes_on_for_ever(*loaded))
    return complain("scenario: it has no end; say --until TIME to see its beginning", 2);
  return run_scenario(*session, *loaded, {options.seed.value_or(loaded->seed), options.undo, options.dry_run});
}

}  // namespace

void add_scenario(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<ScenarioWords>();
  CLI::App* command = app.add_subcommand("scenario", "Break things by a plan, with some chance");
  command->footer(scenario_examples);
  add_name(*command, options->name);
  command->add_option("FILE", options->file, "The scenario")->required()->option_text(" ");
  command->add_option("--seed", options->seed, "Instead of the file's (or 1)")->option_text("N");
  command->add_option("--until", options->until, "When to end, instead of the file's")->option_text("TIME");
  command->add_flag("--undo", options->undo, "Mend what is broken at the end, also after Ctrl-C");
  command->add_flag("--dry-run", options->dry_run, "Only print what would be done, and when");
  command->callback([options, &exit_code] { exit_code = scenario(*options); });
}

}  // namespace softib::cli
