// Going to a host: into its namespaces where it has some.
#pragma once

#include <string>
#include <vector>

#include "fabric/fabric.h"
#include "ipc/places.h"

namespace softib::cli {

struct HostEnvironment;

// This process is on the host afterwards, in the same working folder where that is there. True: the host has processes
// of its own, and only a child is one of them.
[[nodiscard]] fabric::Parsed<bool> enter_place(const std::string& dir, const std::string& host);

// Becomes the command on that host, with its environment. Comes back with an exit code only if that can't be done, or,
// where hosts have processes of their own, when the command has ended.
[[nodiscard]] int become_on_host(const HostEnvironment& host, const std::vector<std::string>& command);

}  // namespace softib::cli
