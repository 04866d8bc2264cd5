// A tool's connection to a running daemon.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "fabric/fabric.h"
#include "ipc/client.h"

namespace softib::cli {

// Calls take at most `limit`, then they fail with EIO.
[[nodiscard]] fabric::Parsed<std::unique_ptr<ipc::Client>> connect_as_tool(const std::string& dir,
                                                                           std::chrono::seconds limit);
// Why a call failed, for people.
[[nodiscard]] std::string cause_of(Errno error);

}  // namespace softib::cli
