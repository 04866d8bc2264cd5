// Starting, finding and ending softibd.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "cli/interrupts.h"
#include "fabric/fabric.h"

namespace softib::cli {

// Starts softibd on a fabric's folder, with further options, and returns once its socket accepts. The error carries the
// end of its log.
[[nodiscard]] fabric::Parsed<pid_t> start_daemon(const std::string& dir, const std::vector<std::string>& options,
                                                 Interrupts& interrupts);

// The daemon's pid, from the kernel's knowledge of who listens on the socket; nothing when nobody does, or when it
// lives in another pid namespace.
[[nodiscard]] std::optional<pid_t> daemon_pid(const std::string& dir);

// SIGTERM, and SIGKILL when that does not help. Returns once the daemon's lock is free.
[[nodiscard]] fabric::Parsed<void> stop_daemon(const std::string& dir);

}  // namespace softib::cli
