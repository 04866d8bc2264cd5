#include <fmt/format.h>

#include <memory>

#include "cli/commands/commands.h"
#include "cli/session_folder.h"
#include "cli/status_query.h"
#include "cli/status_text.h"

namespace softib::cli {

namespace {

constexpr const char* status_examples = R"(Exit code 0: it is running; 1: it is not, or does not answer.

Examples:
  softib status
  softib status --name lab --json)";

struct StatusOptions {
  std::string name = "default";
  bool as_json = false;
};

int not_available(const StatusOptions& options, const std::string& cause) {
  if (options.as_json)
    fmt::print("{}\n", nlohmann::json{{"fabric", options.name}, {"running", false}, {"error", cause}}.dump(2));
  else
    complain(cause);
  return 1;
}

int status(const StatusOptions& options) {
  auto folder = running_folder(options.name);
  if (!folder) return not_available(options, folder.error().text);
  auto answer = query_status(*folder);
  if (!answer) return not_available(options, answer.error().text);
  (*answer)["running"] = true;
  constexpr auto replace = nlohmann::json::error_handler_t::replace;  // program names need not be UTF-8
  fmt::print("{}", options.as_json ? answer->dump(2, ' ', false, replace) + "\n" : status_text(*answer));
  return 0;
}

}  // namespace

void add_status(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<StatusOptions>();
  CLI::App* command = app.add_subcommand("status", "Show hosts, devices, ports, processes and objects of a fabric");
  command->footer(status_examples);
  add_name(*command, options->name);
  command->add_flag("--json", options->as_json, "As JSON");
  command->callback([options, &exit_code] { exit_code = status(*options); });
}

}  // namespace softib::cli
