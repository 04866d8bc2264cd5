// What a pattern in a scenario stands for.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "fabric/fabric.h"

namespace softib::fabric {

enum class TargetKind : u8 { link, port, sw, host };

// Names of all that fit, in the order of the fabric file. A pattern is a name with '*' and '?' for any letters and one
// letter; a word without them fits every name that it is part of; 'switch', 'host', 'link' and 'port' fit everything.
// Ends of links are matched as SWITCH:PORT and HOST/HCA:PORT; without ':' every port fits.
[[nodiscard]] std::vector<std::string> targets_of(const Fabric& fabric, TargetKind kind, std::string_view pattern);

[[nodiscard]] bool is_pattern(std::string_view word);
[[nodiscard]] bool fits(std::string_view pattern, std::string_view name);

}  // namespace softib::fabric
