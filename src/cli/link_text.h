// The list of links as a table for people.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace softib::cli {

[[nodiscard]] std::string links_text(const nlohmann::json& links);
// Those with one end at a port ("leaf0:1") or at any port of a node ("leaf0", "host0/mlx5_0").
[[nodiscard]] nlohmann::json links_at(const nlohmann::json& links, const std::string& place);
// "faults" of `softib status`; empty when there are none.
[[nodiscard]] std::string faults_text(const nlohmann::json& faults);

}  // namespace softib::cli
