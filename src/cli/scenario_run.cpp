#include "cli/scenario_run.h"

#include <fmt/format.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <cstring>

namespace softib::cli {

namespace {

using Clock = std::chrono::steady_clock;

// While one lives, SIGINT and SIGTERM end only the waiting.
class SignalWait {
 public:
  SignalWait() {
    sigemptyset(&signals_);
    sigaddset(&signals_, SIGINT);
    sigaddset(&signals_, SIGTERM);
    ::pthread_sigmask(SIG_BLOCK, &signals_, &before_);
  }
  ~SignalWait() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalWait(const SignalWait&) = delete;
  SignalWait& operator=(const SignalWait&) = delete;

  // The signal that came before that time, 0: none.
  int until(Clock::time_point when) {
    while (true) {
      const auto left = std::max(when - Clock::now(), Clock::duration::zero());
      const auto ns = std::chrono::duration_cast<std::chrono::nanoseconds>(left).count();
      const timespec wait{ns / 1'000'000'000, ns % 1'000'000'000};
      const int got = ::sigtimedwait(&signals_, nullptr, &wait);
      if (got > 0) return got;
      if (errno == EAGAIN) return 0;
    }
  }

 private:
  sigset_t signals_{};
  sigset_t before_{};
};

class Run {
 public:
  Run(FaultSession& session, const ScenarioOptions& options) : session_(session), options_(options) {}

  int operator()(const fabric::Scenario& scenario) {
    fabric::ScenarioPlan plan(scenario, session_.fabric(), options_.seed);
    fmt::print("scenario{}, seed {}\n", scenario.name.empty() ? "" : " " + scenario.name, options_.seed);
    const auto start = Clock::now();
    int ended_by = 0;
    while (const auto planned = plan.next()) {
      if (!options_.dry_run) ended_by = signals_.until(start + std::chrono::nanoseconds(planned->at));
      if (ended_by) break;
      for (const fabric::FaultRequest& fault : planned->faults) apply(fault, planned->at);
    }
    if (options_.undo) undo_all(start);
    if (ended_by) return 128 + ended_by;
    return refused_ ? 1 : 0;
  }

 private:
  void apply(const fabric::FaultRequest& fault, u64 at) {
    if (options_.dry_run) return say(at, fabric::fault_words(session_.fabric(), fault));
    if (done(fault, at, "")) remember(fault);
  }

  bool done(const fabric::FaultRequest& fault, u64 at, const char* prefix) {
    auto reply = session_.apply(fault);
    refused_ += !reply;
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
  SignalWait signals_;
  std::vector<Undo> undo_;
  size_t last_swap_ = 0;
  u32 refused_ = 0;
};

}  // namespace

int run_scenario(FaultSession& session, const fabric::Scenario& scenario, const ScenarioOptions& options) {
  return Run(session, options)(scenario);
}

}  // namespace softib::cli
