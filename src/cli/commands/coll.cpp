#include <unistd.h>

#include <cerrno>

#include "base/arguments.h"
#include "base/error_text.h"
#include "cli/commands/commands.h"
#include "cli/installation.h"

namespace softib::cli {

namespace {

// It has options of its own, and takes the place of this program.
int coll_tune(const std::vector<std::string>& words) {
  const auto program = find_coll_tune();
  if (!program) return complain(program.error().text, not_found);
  std::vector<std::string> all{*program};
  all.insert(all.end(), words.begin(), words.end());
  const auto pointers = argument_pointers(all);
  ::execv(program->c_str(), pointers.data());
  return complain(*program + ": " + error_text(), not_executable);
}

}  // namespace

void add_coll(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand("coll", "Collectives: measure how they are done best here");
  command->require_subcommand(1);
  command->footer(
      "Examples:\n  softib coll tune -np 4 -o tuning\n  softib coll tune --hosts host0:2,host1:2 -o tuning\n"
      "  softib coll tune --help");
  CLI::App* tune = command->add_subcommand("tune", "Measure all algorithms, and write SOFTIB_TUNING_FILE's file");
  tune->prefix_command();
  tune->set_help_flag();
  tune->callback([tune, &exit_code] { exit_code = coll_tune(tune->remaining()); });
}

}  // namespace softib::cli
