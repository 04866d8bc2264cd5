#include "perf/launch/launcher.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <deque>
#include <filesystem>
#include <thread>

#include "base/error_text.h"
#include "base/processors.h"
#include "perf/launch/plan.h"
#include "perf/launch/process.h"
#include "perf/launch/variables.h"
#include "perf/processor.h"
#include "perf/stop.h"

namespace softib::perf {

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::array<int, 3> ending_signals{SIGINT, SIGTERM, SIGHUP};
// How long processes may go on once one has failed: to hear of it, and to say so.
constexpr auto grace = std::chrono::seconds(5);
// ... and once they have been told to end.
constexpr auto last_grace = std::chrono::seconds(2);

// False where nobody reads it.
bool put_out(int stream, std::string_view text) {
  while (!text.empty()) {
    const ssize_t put = ::write(stream, text.data(), text.size());
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return false;
    text.remove_prefix(static_cast<std::size_t>(put));
  }
  return true;
}

// Whole lines, so that those of different processes don't mix.
void put_lines(int stream, std::string& held) {
  const auto end = held.rfind('\n');
  if (end == std::string::npos) return;
  static_cast<void>(put_out(stream, std::string_view(held).substr(0, end + 1)));
  held.erase(0, end + 1);
}

std::filesystem::path own_program() {
  std::error_code error;
  return std::filesystem::read_symlink("/proc/self/exe", error);
}

// `softib ssh` of the installation that this program is of, else of the PATH.
std::string default_agent() {
  const auto beside = own_program().parent_path() / "softib";
  return ::access(beside.c_str(), X_OK) == 0 ? beside.string() + " ssh" : "softib ssh";
}

class Launcher {
 public:
  Launcher(const Options& options, std::vector<Slot> slots, std::vector<std::string> arguments)
      : agent_(options.agent.empty() ? default_agent() : options.agent),
        slots_(std::move(slots)),
        processors_(processors_for(options, slots_.size(), allowed_processors())),
        arguments_(std::move(arguments)) {
    watch_signals();
  }

  int run() {
    if (!start_process({})) return to_int(Exit::internal_error);
    while (!all_done()) {
      turn();
      look_after();
    }
    return worst_;
  }

 private:
  void watch_signals() {
    sigset_t watched;
    sigemptyset(&watched);
    for (const int number : ending_signals) sigaddset(&watched, number);
    sigaddset(&watched, SIGCHLD);
    ::sigprocmask(SIG_BLOCK, &watched, nullptr);
    signals_ = Fd(::signalfd(-1, &watched, SFD_CLOEXEC | SFD_NONBLOCK));
    ::signal(SIGPIPE, SIG_IGN);
  }

  bool start_process(const std::string& id) {
    const auto number = processes_.size();
    Command command{own_program().string(), arguments_, shared_variables(environ),
                    std::filesystem::current_path().string()};
    command.variables[variables::process] = std::to_string(number);
    command.variables[variables::processes] = std::to_string(slots_.size());
    if (!id.empty()) command.variables[variables::id] = id;
    if (!processors_.empty()) command.variables[variables::processors] = processors_[number];
    if (number == 0 && ::isatty(STDERR_FILENO) == 1)
      command.variables.emplace(variables::terminal, ::isatty(STDOUT_FILENO) == 1 ? "1" : "2");
    std::vector<std::string> own_variables;
    if (slots_[number].host.empty())
      for (const auto& [name, value] : command.variables) own_variables.push_back(fmt::format("{}={}", name, value));
    auto started = LaunchedProcess::start(words_for(slots_[number], agent_, command), own_variables);
    if (!started) {
      put_out(STDERR_FILENO, fmt::format("process {} can't be started: {}\n", number, error_text(started.error())));
      return false;
    }
    processes_.push_back(std::move(*started));
    return true;
  }

  // Waits for anything to happen, at most until the next deadline, and takes it.
  void turn() {
    std::vector<pollfd> watched{{signals_.get(), POLLIN, 0}};
    for (const LaunchedProcess& process : processes_)
      for (const int stream : {process.output(), process.errors()}) watched.push_back({stream, POLLIN, 0});
    ::poll(watched.data(), watched.size(), milliseconds_left());
    take_signals();
    for (std::size_t i = 0; i < processes_.size(); ++i) pass_on(i);
  }

  [[nodiscard]] int milliseconds_left() const {
    if (!deadline_) return -1;
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(*deadline_ - Clock::now());
    return static_cast<int>(std::max<i64>(left.count() + 1, 0));
  }

  void take_signals() {
    signalfd_siginfo info{};
    while (::read(signals_.get(), &info, sizeof(info)) == sizeof(info)) {
      const auto number = static_cast<int>(info.ssi_signo);
      if (number == SIGCHLD) continue;
      worst_ = std::max(worst_, 128 + number);
      signal_all(number);
      fail_after(last_grace);
    }
  }

  void pass_on(std::size_t number) {
    LaunchedProcess& process = processes_[number];
    if (process.output() >= 0 && !process.read_output()) finish_text(process.held_output);
    if (process.errors() >= 0 && !process.read_errors()) finish_text(process.held_errors);
    if (number == 0 && !has_id_) take_id(process);
    if (number == 0 && has_id_) {
      if (!put_out(STDOUT_FILENO, std::exchange(process.held_output, {}))) nobody_reads();
      static_cast<void>(put_out(STDERR_FILENO, std::exchange(process.held_errors, {})));
    } else {
      if (number != 0) put_lines(STDOUT_FILENO, process.held_output);
      put_lines(STDERR_FILENO, process.held_errors);
    }
  }

  // What SIGPIPE does to other programs.
  void nobody_reads() {
    worst_ = std::max(worst_, 128 + SIGPIPE);
    fail_after({});
  }

  static void finish_text(std::string& held) {
    if (!held.empty() && held.back() != '\n') held += '\n';
  }

  // Of process 0's output the first line is for us; whatever comes before it, as a shell's greeting, is passed on.
  void take_id(LaunchedProcess& process) {
    std::string& held = process.held_output;
    for (auto end = held.find('\n'); end != std::string::npos && !has_id_; end = held.find('\n')) {
      const std::string line = held.substr(0, end);
      held.erase(0, end + 1);
      if (line.starts_with(variables::id_line)) {
        start_others(line.substr(std::string_view(variables::id_line).size()));
      } else {
        put_out(STDOUT_FILENO, line + "\n");
      }
    }
  }

  void start_others(const std::string& id) {
    has_id_ = true;
    while (processes_.size() < slots_.size()) {
      if (start_process(id)) continue;
      worst_ = std::max(worst_, to_int(Exit::internal_error));
      fail_after({});
      return;
    }
  }

  // One has ended, or the time of the others is up.
  void look_after() {
    for (LaunchedProcess& process : processes_) {
      if (process.has_ended()) continue;
      process.look();
      // How it ends that was told to is nobody's fault.
      if (!process.has_ended() || process.exit_code() == 0 || told_to_end_) continue;
      worst_ = std::max(worst_, process.exit_code());
      fail_after(grace);
    }
    if (deadline_ && Clock::now() >= *deadline_) end_all();
  }

  void fail_after(Clock::duration time) {
    const auto end = Clock::now() + time;
    if (!deadline_ || end < *deadline_) deadline_ = end;
  }

  void end_all() {
    const int number = told_to_end_ ? SIGKILL : SIGTERM;
    for (LaunchedProcess& process : processes_) process.close_input();
    signal_all(number);
    told_to_end_ = true;
    deadline_ = Clock::now() + last_grace;
  }

  void signal_all(int number) {
    for (const LaunchedProcess& process : processes_) process.signal(number);
  }

  // What a process has left behind may hold its streams open; nobody waits for that once the time is up.
  [[nodiscard]] bool all_done() const {
    const auto ended = [](const LaunchedProcess& process) { return process.has_ended(); };
    const auto silent = [](const LaunchedProcess& process) { return process.output() < 0 && process.errors() < 0; };
    if (!std::all_of(processes_.begin(), processes_.end(), ended)) return false;
    return told_to_end_ || std::all_of(processes_.begin(), processes_.end(), silent);
  }

  std::string agent_;
  std::vector<Slot> slots_;
  std::vector<std::string> processors_;  // by process; empty: any
  std::vector<std::string> arguments_;
  Fd signals_;
  std::deque<LaunchedProcess> processes_;  // stay where they are when others come
  bool has_id_ = false;
  bool told_to_end_ = false;
  std::optional<Clock::time_point> deadline_;
  int worst_ = 0;
};

}  // namespace

int launch(const Options& options, int argc, const char* const* argv) {
  auto slots = plan_slots(options);
  if (!slots) {
    put_out(STDERR_FILENO, slots.error().text + "\n");
    return to_int(Exit::invalid_usage);
  }
  return Launcher(options, std::move(*slots), arguments_of_rank(argc, argv)).run();
}

void end_with_launcher() {
  std::thread([] {
    for (char letter = 0;;) {
      const ssize_t got = ::read(STDIN_FILENO, &letter, 1);
      if (got > 0 || (got < 0 && errno == EINTR)) continue;
      ::_exit(to_int(Exit::internal_error));
    }
  }).detach();
}

}  // namespace softib::perf
