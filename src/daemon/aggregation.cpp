#include "daemon/aggregation.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "base/error_text.h"
#include "fabric/aggregation.h"
#include "fabric/error.h"

namespace softib::daemon {

namespace {

using fabric::refuse;

}  // namespace

AggregationPrograms::AggregationPrograms(const fabric::Fabric& fabric, std::string dir, Programs programs)
    : fabric_(fabric), dir_(std::move(dir)), programs_(std::move(programs)) {
  for (const u32 host : aggregation_hosts(fabric)) {
    Process& process = processes_.emplace_back();
    process.host = host;
    process.folder = fmt::format("{}/aggregation/{}", dir_, fabric.hosts[host].name);
  }
}

// What they have registered goes with subnet administration.
AggregationPrograms::~AggregationPrograms() { kill(); }

bool AggregationPrograms::kill() { return kill_all(processes_); }

fabric::Parsed<void> AggregationPrograms::start() {
  why_not_.clear();
  if (programs_.aggregation.empty() || programs_.preload_library.empty()) why_not_ = "softib-aggregation is not there";
  for (Process& process : processes_) {
    if (!why_not_.empty()) break;
    if (auto started = start_one(process); !started) why_not_ = started.error().text;
  }
  if (why_not_.empty()) return {};
  return refuse("aggregation nodes reduce nothing: " + why_not_);
}

fabric::Parsed<void> AggregationPrograms::start_one(Process& process) {
  std::error_code error;
  std::filesystem::create_directories(process.folder, error);
  if (error) return refuse(fmt::format("cannot make {}: {}", process.folder, error.message()));
  Launch program{{programs_.aggregation},
                 {"SOFTIB_FABRIC_DIR=" + dir_, "SOFTIB_HOST=" + fabric_.hosts[process.host].name,
                  "LD_PRELOAD=" + programs_.preload_library}};
  if (&process == &processes_.front()) program.arguments.emplace_back("--manager");
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0) return refuse(fmt::format("cannot make a pipe: {}", error_text()));
  process.word.reset(ends[0]);
  process.ready = false;
  const Fd theirs(ends[1]);
  program.third = theirs.get();
  program.arguments.insert(program.arguments.end(), {"--ready-fd", "3"});
  program.folder = process.folder;
  program.output = process.log();
  program.death_signal = SIGKILL;
  if (auto started = process.start(program); !started)
    return refuse(fmt::format("cannot start softib-aggregation: {}", std::strerror(to_int(started.error()))));
  spdlog::info("softib-aggregation, process {}, starts on {}; its log is {}", process.pid,
               fabric_.hosts[process.host].name, process.log());
  return {};
}

void AggregationPrograms::ended(size_t index) {
  Process& process = processes_[index];
  if (!process.take_end()) return;
  spdlog::warn("softib-aggregation on {} (process {}) ended with {}; 'softib aggregation restart' starts it again",
               fabric_.hosts[process.host].name, process.pid, how_it_ended(*process.ended));
}

void AggregationPrograms::told(size_t index) {
  Process& process = processes_[index];
  char word = 0;
  if (!process.word || (::read(process.word.get(), &word, 1) < 0 && errno == EAGAIN)) return;
  process.ready = true;
  process.word.reset();
}

std::string AggregationPrograms::state(const Process& process) const {
  if (process.runs()) return process.ready ? "running" : "starting";
  return process.ended ? "ended with " + how_it_ended(*process.ended) : "not started: " + why_not_;
}

bool AggregationPrograms::is_for(pid_t pid, u32 host) const {
  return std::any_of(processes_.begin(), processes_.end(), [&](const Process& process) {
    return process.host == host && process.runs() && process.pid == pid;
  });
}

}  // namespace softib::daemon
