#include "cli/scenario_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>

#include "cli/interrupts.h"

namespace softib::cli {

namespace {

using Clock = std::chrono::steady_clock;

class Run {
 public:
  Run(FaultSession& session, const ScenarioOptions& options) : session_(session), options_(options) {}

  int operator()(const fabric::Scenario& scenario) {
    fabric::ScenarioPlan plan(scenario, session_.fabric(), options_.seed);
    fmt::print("scenario{}, seed {}\n", scenario.name.empty() ? "" : " " + scenario.name, options_.seed);
    const auto start = Clock::now();
    while (const auto planned = plan.next()) {
      if (!options_.dry_run && interrupts_.came_until(start + std::chrono::nanoseconds(planned->at))) break;
      for (const fabric::FaultRequest& fault : planned->faults) apply(fault, planned->at, planned->undo);
    }
    hold_until(start, scenario.until);
    if (options_.undo) undo_all(start);
    if (const int number = interrupts_.signal()) return 128 + number;
    return refused_ ? 1 : 0;
  }

 private:
  // What was broken last is to be seen until the end.
  void hold_until(Clock::time_point start, u64 until) {
    if (until == fabric::no_time || options_.dry_run || interrupts_.signal()) return;
    interrupts_.came_until(start + std::chrono::nanoseconds(until));
  }

  void apply(const fabric::FaultRequest& fault, u64 at, bool mends) {
    if (options_.dry_run) return say(at, fabric::fault_words(session_.fabric(), fault));
    if (!done(fault, at, "")) return;
    if (mends)
      forget(fault);
    else
      remember(fault);
  }

  bool done(const fabric::FaultRequest& fault, u64 at, const char* prefix) {
    auto reply = session_.apply(fault);
    refused_ += !reply;
    if (*prefix && reply && !reply->changed) return true;  // it has mended itself
    say(at, prefix + (reply ? outcome_text(session_.fabric(), fault, *reply) : "refused: " + reply.error().text));
    return reply.has_value();
  }

  static void say(u64 at, const std::string& text) {
    fmt::print("{:>9.3f} s  {}\n", static_cast<double>(at) / 1e9, text);
    std::fflush(stdout);
  }

  // What mends the same is done once. Not across a swap: the same port has another cable then.
  void remember(const fabric::FaultRequest& fault) {
    const auto undo = options_.undo ? fabric::undo_of(fault) : std::nullopt;
    if (!undo) return;
    const std::string words = fabric::fault_words(session_.fabric(), *undo);
    const bool swap = undo->kind == ipc::FaultKind::swap;
    if (swap) last_swap_ = undo_.size();
    const auto from = undo_.begin() + static_cast<std::ptrdiff_t>(std::min(last_swap_, undo_.size()));
    const bool known = !swap && std::any_of(from, undo_.end(), [&](const Undo& one) { return one.words == words; });
    if (!known) undo_.push_back({words, *undo});
  }

  // It has been mended already. What is older than the last swap stays: the port has another cable now.
  void forget(const fabric::FaultRequest& mended) {
    const std::string words = fabric::fault_words(session_.fabric(), mended);
    for (size_t i = undo_.size(); i-- > std::min(last_swap_, undo_.size());) {
      if (undo_[i].words != words) continue;
      undo_.erase(undo_.begin() + static_cast<std::ptrdiff_t>(i));
      if (mended.kind == ipc::FaultKind::swap) find_last_swap();
      return;
    }
    remember(mended);
  }

  void find_last_swap() {
    last_swap_ = 0;
    for (size_t i = 0; i < undo_.size(); ++i)
      if (undo_[i].fault.kind == ipc::FaultKind::swap) last_swap_ = i;
  }

  void undo_all(Clock::time_point start) {
    for (auto undo = undo_.rbegin(); undo != undo_.rend(); ++undo) {
      const auto now = std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start);
      done(undo->fault, static_cast<u64>(now.count()), "undo: ");
    }
  }

  struct Undo {
    std::string words;
    fabric::FaultRequest fault;
  };

  FaultSession& session_;
  ScenarioOptions options_;
  Interrupts interrupts_;
  std::vector<Undo> undo_;
  size_t last_swap_ = 0;
  u32 refused_ = 0;
};

}  // namespace

int run_scenario(FaultSession& session, const fabric::Scenario& scenario, const ScenarioOptions& options) {
  return Run(session, options)(scenario);
}

}  // namespace softib::cli
