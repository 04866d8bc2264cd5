// The `topology:` key of a fabric file.
#pragma once

#include <optional>

#include "fabric/topo/generate.h"
#include "fabric/yaml_reader.h"

namespace softib::fabric::topo {

// Nothing after an error, which `yaml` holds.
[[nodiscard]] std::optional<Topology> read_topology(YamlReader& yaml, const YAML::Node& node);

// "3:1", or "3" for 3:1; both parts from 1 to 254.
[[nodiscard]] std::optional<std::pair<u32, u32>> parse_ratio(std::string_view text);

}  // namespace softib::fabric::topo
