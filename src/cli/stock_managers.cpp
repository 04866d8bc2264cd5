#include "cli/stock_managers.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <sstream>
#include <thread>

#include "cli/environment.h"
#include "cli/installation.h"
#include "cli/log_tail.h"
#include "cli/status_query.h"
#include "fabric/aggregation.h"
#include "fabric/error.h"
#include "fabric/runtime.h"

namespace softib::cli {

namespace {

using fabric::refuse;

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;
using nlohmann::json;

constexpr auto sweep_limit = 300s;  // a stock manager on a fabric of thousands of ports, on a slow machine
constexpr auto shortest_pause = 20ms;
constexpr size_t shown_lines = 10;

bool are_stock(const fabric::Fabric& fabric) {
  return fabric.sm == fabric::SubnetManager::opensm && fabric.link_layer == fabric::LinkLayer::infiniband;
}

// Of a wrong option getopt says so in a line that begins with the program's name; all the usage follows.
std::string complaint_in(const std::string& output) {
  auto text = fabric::read_file(output);
  if (!text) return {};
  std::istringstream lines(*text);
  for (std::string line; std::getline(lines, line);)
    if (const size_t at = line.find("opensm: "); at != line.npos && line.find(' ') == at + 7) return "  " + line;
  return {};
}

// What it did is in its log, the rest on its output.
std::string last_words(const json& manager) {
  std::string text = tail_of_file(manager.value("log", ""), shown_lines, "  ");
  if (text.empty()) text = complaint_in(manager.value("output", ""));
  if (text.empty()) text = tail_of_file(manager.value("output", ""), shown_lines, "  ");
  if (text.empty()) return "; it said nothing";
  if (text.back() == '\n') text.pop_back();
  return fmt::format("; what it said last:\n{}", text);
}

enum class Progress : std::uint8_t { up, not_yet, ended };

Progress progress_of(const json& manager) {
  if (manager.value("subnet_up", false)) return Progress::up;
  return manager.value("running", true) ? Progress::not_yet : Progress::ended;
}

}  // namespace

fabric::Parsed<std::vector<std::string>> options_for_daemon(const fabric::Fabric& fabric) {
  std::vector<std::string> options;
  auto library = loadable_library();
  if (library) options.insert(options.end(), {"--preload-library", *library});
  if (are_stock(fabric)) {
    auto opensm = find_opensm();
    if (!opensm) return refuse(opensm.error().text);
    if (!library) return refuse(library.error().text);
    options.insert(options.end(), {"--opensm", *opensm});
  }
  if (const auto aggregation = find_aggregation(); aggregation && !aggregation_hosts(fabric).empty())
    options.insert(options.end(), {"--aggregation", *aggregation});
  if (fabric.namespaces == fabric::Namespaces::off) return options;
  auto keeper = find_hosts_keeper();
  if (!keeper) return refuse(keeper.error().text);
  options.insert(options.end(), {"--hosts-keeper", *keeper});
  return options;
}

fabric::Parsed<void> wait_for_aggregation(const fabric::Fabric& fabric, const std::string& dir,
                                          Interrupts& interrupts) {
  constexpr auto patience = 10s;
  if (fabric.sm == fabric::SubnetManager::none || aggregation_hosts(fabric).empty()) return {};
  for (const auto deadline = Clock::now() + patience; Clock::now() < deadline;) {
    auto status = query_status(dir);
    if (!status) return refuse(status.error().text);
    const json& programs = (*status)["aggregation"];
    const bool wait = std::any_of(programs.begin(), programs.end(), [](const json& program) {
      return program.value("running", false) && !program.value("ready", false);
    });
    if (!wait) return {};
    if (interrupts.came_within(shortest_pause)) return refuse("interrupted");
  }
  return {};
}

fabric::Parsed<void> wait_for_managers(const fabric::Fabric& fabric, const std::string& dir, Interrupts& interrupts) {
  if (!are_stock(fabric)) return {};
  json waiting;
  for (const auto deadline = Clock::now() + sweep_limit; Clock::now() < deadline;) {
    const auto asked = Clock::now();
    auto status = query_status(dir);
    if (!status) return refuse(status.error().text);
    waiting = nullptr;
    for (const json& manager : (*status)["subnet_managers"]) {
      const Progress progress = progress_of(manager);
      if (progress == Progress::ended)
        return refuse(fmt::format("opensm on {} {}{}", manager.value("place", ""), manager.value("state", ""),
                                  last_words(manager)));
      if (progress == Progress::not_yet) waiting = manager;
    }
    if (waiting.is_null()) return {};
    // The status of a large fabric is work that would be in opensm's way.
    if (interrupts.came_within(std::max<Clock::duration>(shortest_pause, 10 * (Clock::now() - asked))))
      return refuse("interrupted");
  }
  return refuse(fmt::format("opensm on {} has not brought its subnet up within {} s{}", waiting.value("place", ""),
                            sweep_limit.count(), last_words(waiting)));
}

}  // namespace softib::cli
