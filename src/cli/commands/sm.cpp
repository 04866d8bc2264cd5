#include <memory>

#include "cli/commands/commands.h"
#include "cli/fault_session.h"

namespace softib::cli {

namespace {

constexpr const char* sm_examples =
    R"(  kill       the fabric file's subnet manager, built-in or opensm, dies without a word: links that change stay in
             INIT, and nobody answers saquery, until another one takes over
  restart    it starts anew, dead or not, knows nothing and sweeps. Where opensm ended with its host, after
             'softib host HOST on'

Examples:
  softib sm kill
  softib sm restart)";

struct SmOptions {
  std::string name = "default";
  std::vector<std::string> words;
};

}  // namespace

void add_sm(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<SmOptions>();
  CLI::App* command = app.add_subcommand("sm", "Kill the subnet manager, or start it anew");
  command->footer(sm_examples);
  add_name(*command, options->name);
  command->add_option("ACTION", options->words, "kill or restart")->required()->option_text("kill|restart");
  command->callback([options, &exit_code] {
    options->words.insert(options->words.begin(), "sm");
    exit_code = do_fault(options->name, options->words);
  });
}

}  // namespace softib::cli
