// Ends of cables as people name them: SWITCH:PORT, HOST/HCA:PORT, or as in the fabric file with '/'.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "fabric/fabric.h"

namespace softib::fabric {

// "leaf0:3", "host0/mlx5_0:1"
[[nodiscard]] std::string end_name(const Fabric& fabric, const CableEnd& end);

// Also HOST/HCA for port 1, and HOST where it has one port only. The error says what there is instead.
[[nodiscard]] Parsed<CableEnd> parse_end(const Fabric& fabric, std::string_view text);
[[nodiscard]] Parsed<u32> parse_switch(const Fabric& fabric, std::string_view text);
[[nodiscard]] Parsed<u32> parse_host(const Fabric& fabric, std::string_view text);

// "; did you mean 'leaf1'?", or what there is, if that is not too much for a line.
[[nodiscard]] std::string hint_among(std::string_view word, const std::vector<std::string_view>& choices);

}  // namespace softib::fabric
