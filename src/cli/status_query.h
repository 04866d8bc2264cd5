// Asking a running daemon for its state.
#pragma once

#include <chrono>
#include <nlohmann/json.hpp>
#include <string>

#include "fabric/fabric.h"

namespace softib::cli {

[[nodiscard]] fabric::Parsed<nlohmann::json> query_status(const std::string& dir,
                                                          std::chrono::seconds limit = std::chrono::seconds(10));

}  // namespace softib::cli
