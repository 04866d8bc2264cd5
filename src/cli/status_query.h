// Asking a running daemon: for its state, and for a host's files.
#pragma once

#include <chrono>
#include <nlohmann/json.hpp>
#include <string>

#include "fabric/fabric.h"
#include "ipc/places.h"

namespace softib::cli {

[[nodiscard]] fabric::Parsed<nlohmann::json> query_status(const std::string& dir,
                                                          std::chrono::seconds limit = std::chrono::seconds(10));
// The list of links (daemon/fault_report.h).
[[nodiscard]] fabric::Parsed<nlohmann::json> query_links(const std::string& dir);

// Has the host's sysfs tree made, and says what the host is. Errors as of ipc::PrepareHost, and EIO: no answer within
// the limit.
[[nodiscard]] Result<ipc::PlaceKind> ask_to_prepare(const std::string& dir, std::string_view host,
                                                    std::chrono::seconds limit = std::chrono::seconds(30));

}  // namespace softib::cli
