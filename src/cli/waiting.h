// Becoming a command, or standing in for one that has to be a child.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace softib::cli {

// Comes back only if it can't be done, with the exit code for that.
[[nodiscard]] int execute(const std::vector<std::string>& command);

// Runs it as a child and behaves as it does: passes signals on, and ends as it ends.
[[nodiscard]] int wait_for_child(const std::vector<std::string>& command);

// From now on signals that somebody sends to this process reach these too. What a terminal sends has reached them: they
// are of the same group.
void pass_signals_to(const std::vector<pid_t>& children);

// Waits for the end of a child of this process, through signals.
[[nodiscard]] int wait_status_of(pid_t pid);

// What a shell shows for it: the exit code, or 128 and the signal's number.
[[nodiscard]] int exit_code_of(int wait_status);

}  // namespace softib::cli
