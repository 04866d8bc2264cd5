#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <optional>

#include "cli/commands/commands.h"
#include "cli/environment.h"
#include "cli/session_folder.h"
#include "cli/waiting.h"

namespace softib::cli {

namespace {

namespace fs = std::filesystem;

constexpr const char* about_cp =
    R"(Hosts share this machine's files, so HOST:PATH is PATH on this machine, and a copy is needed only where the two
paths differ: the command is there for scripts that say scp. A path behind a host that does not begin with / begins in
the home folder. What is at its place already is left as it is.

Examples:
  softib cp host0:results/run.txt .
  softib cp -r data host1:data)";

struct CpOptions {
  std::string name = surrounding_fabric();
  std::vector<std::string> paths;
  bool recursive = false;
  bool keep = false;
};

// The path here; the error: no such host.
fabric::Parsed<fs::path> path_here(const std::string& word, const CpOptions& options, const std::string& dir) {
  const size_t colon = word.find(':');
  if (colon == std::string::npos || word.find('/') < colon) return fs::path(word);
  const std::string host = word.substr(0, colon);
  if (!has_host(dir, host)) return fabric::refuse(fmt::format("fabric '{}' has no host '{}'", options.name, host));
  const char* home = std::getenv("HOME");
  return fs::path(home ? home : "/") / word.substr(colon + 1);
}

bool is_in_place(const fs::path& from, const fs::path& to) {
  std::error_code ignored;
  return fs::equivalent(from, fs::is_directory(to, ignored) ? to / from.filename() : to, ignored) ||
         fs::equivalent(from, to, ignored);
}

int cp(const CpOptions& options) {
  auto dir = running_folder(options.name);
  if (!dir) return complain(dir.error().text);
  std::vector<fs::path> paths;
  for (const std::string& word : options.paths) {
    auto path = path_here(word, options, *dir);
    if (!path) return complain(path.error().text);
    paths.push_back(std::move(*path));
  }
  const fs::path target = paths.back();
  paths.pop_back();
  std::erase_if(paths, [&target](const fs::path& from) { return is_in_place(from, target); });
  if (paths.empty()) return 0;
  std::vector<std::string> command{"cp"};
  if (options.recursive) command.emplace_back("-r");
  if (options.keep) command.emplace_back("-p");
  command.emplace_back("--");
  command.insert(command.end(), paths.begin(), paths.end());
  command.push_back(target);
  return execute(command);
}

}  // namespace

void add_cp(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<CpOptions>();
  CLI::App* command = app.add_subcommand("cp", "Copy files from or to hosts, which share this machine's");
  command->footer(about_cp);
  add_name(*command, options->name);
  command->add_flag("-r", options->recursive, "Folders too");
  command->add_flag("-p", options->keep, "Keep times and modes");
  command->add_option("PATHS", options->paths, "[HOST:]SOURCE... [HOST:]TARGET")
      ->required()
      ->expected(2, -1)
      ->option_text(" ");
  command->callback([options, &exit_code] { exit_code = cp(*options); });
}

}  // namespace softib::cli
