// Starts the processes of a run, here or on hosts, and stays until they have ended.
#pragma once

#include "perf/options.h"

namespace softib::perf {

// Runs this same program on all places, with the same arguments but those for the launcher. Passes on what process 0
// writes as it comes, and lines of the others; signals to all of them. When one fails, or a signal comes, the others
// get a moment to say what they have to, and are ended. When this process dies, whichever way, all of them end, also
// those on other hosts: they watch their stdin. Returns the exit code: the worst of all; of a process that a signal
// ended, 128 more than its number.
[[nodiscard]] int launch(const Options& options, int argc, const char* const* argv);

// In a process that the launcher has started: it is to end with the launcher. Starts a thread that only sleeps.
void end_with_launcher();

}  // namespace softib::perf
