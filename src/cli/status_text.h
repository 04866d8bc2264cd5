// A daemon's status as tables for people.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "base/types.h"

namespace softib::cli {

// Missing parts are left out or shown as "-", so that a daemon may say less or more.
[[nodiscard]] std::string status_text(const nlohmann::json& status);

[[nodiscard]] std::string bytes_text(u64 bytes);       // "1.5 MiB"
[[nodiscard]] std::string duration_text(u64 seconds);  // "2 h 5 min"

}  // namespace softib::cli
