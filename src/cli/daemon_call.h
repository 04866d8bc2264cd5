// A tool's connection to a running daemon.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "fabric/fabric.h"
#include "ipc/client.h"

namespace softib::cli {

// Calls take at most `limit`, then they fail with EIO.
[[nodiscard]] Result<std::unique_ptr<ipc::Client>> connect(const std::string& dir, std::chrono::seconds limit);
// And it is attached, so that it can be asked everything.
[[nodiscard]] fabric::Parsed<std::unique_ptr<ipc::Client>> connect_as_tool(const std::string& dir,
                                                                           std::chrono::seconds limit);
// Why a call failed, for people.
[[nodiscard]] std::string cause_of(Errno error);

}  // namespace softib::cli
