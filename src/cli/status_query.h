// Asking a running daemon for its state.
#pragma once

#include <chrono>
#include <nlohmann/json.hpp>
#include <string>

#include "fabric/fabric.h"

namespace softib::cli {

[[nodiscard]] fabric::Parsed<nlohmann::json> query_status(const std::string& dir,
                                                          std::chrono::seconds limit = std::chrono::seconds(10));
// The list of links (daemon/fault_report.h).
[[nodiscard]] fabric::Parsed<nlohmann::json> query_links(const std::string& dir);

}  // namespace softib::cli
