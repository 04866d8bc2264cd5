#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "cli/commands/commands.h"
#include "cli/daemon_process.h"
#include "cli/session_folder.h"
#include "cli/status_query.h"
#include "fabric/runtime.h"

namespace softib::cli {

namespace {

constexpr const char* down_examples =
    R"(Programs that still run on it find their HCAs gone. A fabric that is not running is no error.

Examples:
  softib down
  softib down --name lab
  softib down --all)";

struct DownOptions {
  std::string name = "default";
  bool all = false;
};

// Those of users, as "opensm (process 77)"; stock subnet managers and programs of aggregation nodes are softibd's own,
// and IPoIB is a part of the hosts.
std::vector<std::string> processes_on(const std::string& dir) {
  std::vector<std::string> names;
  auto status = query_status(dir, std::chrono::seconds(1));
  if (!status || !status->contains("processes")) return names;
  const auto is_own = [&](i64 pid) {
    const auto is_it = [&](const auto& one) { return one.value("running", false) && one.value("pid", i64{0}) == pid; };
    const auto &managers = (*status)["subnet_managers"], &aggregation = (*status)["aggregation"];
    return std::any_of(managers.begin(), managers.end(), is_it) ||
           std::any_of(aggregation.begin(), aggregation.end(), is_it);
  };
  for (const nlohmann::json& process : (*status)["processes"]) {
    const i64 pid = process.value("pid", i64{0});
    const std::string program = process.value("program", "?");
    if (!is_own(pid) && program != "softib-ipoib") names.push_back(fmt::format("{} (process {})", program, pid));
  }
  return names;
}

std::string users_text(std::vector<std::string> names) {
  constexpr size_t most = 10;
  const size_t left = names.size() > most ? names.size() - most : 0;
  names.resize(names.size() - left);
  std::string text = fmt::format("{}", fmt::join(names, ", "));
  return left ? fmt::format("{} and {} more", text, left) : text;
}

int stop_running(const std::string& name, const std::string& dir) {
  const auto users = processes_on(dir);
  if (auto stopped = stop_daemon(dir); !stopped) return complain(stopped.error().text);
  if (auto removed = remove_folder(dir); !removed) return complain(removed.error().text);
  fmt::print("fabric '{}' is down", name);
  if (!users.empty()) fmt::print("; still used by {}", users_text(users));
  fmt::print("\n");
  std::fflush(stdout);  // with --all the next may take its time
  return 0;
}

int down(const std::string& name) {
  auto folder = lock_folder(name, false);
  if (!folder) return complain(folder.error().text);
  switch (fabric::liveness(folder->path)) {
    case fabric::Liveness::running:
      return stop_running(name, folder->path);
    case fabric::Liveness::absent:
      fmt::print("fabric '{}' is not running\n", name);
      return 0;
    case fabric::Liveness::stale:
      break;
  }
  // `softib up` may have ended before it put anything there.
  std::error_code error;
  const bool nothing = std::filesystem::is_empty(folder->path, error);
  if (auto removed = remove_folder(folder->path); !removed) return complain(removed.error().text);
  if (nothing)
    fmt::print("fabric '{}' is not running\n", name);
  else
    fmt::print("fabric '{}' was not running; removed what it left behind\n", name);
  return 0;
}

int down_all() {
  int exit_code = 0;
  auto names = fabric::fabrics_in(fabric::runtime_dir());
  for (const std::string& name : names)
    if (int code = down(name)) exit_code = code;
  if (names.empty()) fmt::print("no fabric is running\n");
  return exit_code;
}

}  // namespace

void add_down(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<DownOptions>();
  CLI::App* command = app.add_subcommand("down", "End a fabric");
  command->footer(down_examples);
  CLI::Option* name = add_name(*command, options->name);
  command->add_flag("--all", options->all, "End all fabrics of this user")->excludes(name);
  command->callback([options, &exit_code] { exit_code = options->all ? down_all() : down(options->name); });
}

}  // namespace softib::cli
