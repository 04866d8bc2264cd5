// Programs that softibd starts and owns: they end with it, whatever way it ends.
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <chrono>
#include <concepts>
#include <optional>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/types.h"

namespace softib::daemon {

// Where they lie; `softib up` finds them.
struct Programs {
  std::string opensm;
  std::string preload_library;
  std::string hosts_keeper;
  std::string aggregation;
};

struct ChildProcess {
  pid_t pid = 0;
  Fd handle{};  // pidfd: readable once it has ended
};

struct Launch {
  std::vector<std::string> arguments;    // the program first
  std::vector<std::string> environment;  // what goes over softibd's own, NAME=VALUE
  std::string folder = "/";              // to work in
  std::string output{};                  // stdout and stderr are added to this file; empty: softibd's
  int input = -1;                        // stdin; -1: /dev/null
  int third = -1;                        // descriptor 3
  int death_signal = 0;                  // when softibd dies
};

[[nodiscard]] Result<ChildProcess> launch(const Launch& launch);

// A program that may end, and be started again.
struct OwnedProcess {
  pid_t pid = 0;
  Fd handle{};                 // pidfd: readable once it has ended
  std::optional<int> ended{};  // as waitpid has it

  [[nodiscard]] bool runs() const { return pid != 0 && !ended; }
  [[nodiscard]] Result<void> start(const Launch& launch);
  // To all that it started as well. False: it doesn't run.
  bool signal(int number) const;
  // For as long; false: it still runs.
  bool wait_for_end(std::chrono::milliseconds limit);
  // The handle can be read. False: it has not ended.
  bool take_end();
};

// Those that run, at once; they have ended when this returns, unless the kernel keeps one. False: none did.
template <std::derived_from<OwnedProcess> Process>
bool kill_all(std::vector<Process>& processes) {
  constexpr std::chrono::seconds limit{10};
  bool any = false;
  for (const Process& process : processes) any = process.signal(SIGKILL) || any;
  for (Process& process : processes) (void)process.wait_for_end(limit);
  return any;
}

// "exit code 1", "signal 9 (Killed)"
[[nodiscard]] std::string how_it_ended(int wait_status);

}  // namespace softib::daemon
