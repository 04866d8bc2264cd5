// The keys `sm` and `partitions` of a fabric file.
#pragma once

#include <functional>
#include <string_view>

#include "fabric/fabric.h"
#include "fabric/yaml_reader.h"

namespace softib::fabric {

// What is being read: names of other files in it start where it lies.
struct Source {
  std::string_view name;
  std::string_view text;
};

using ReadEnd = std::function<CableEnd(const YAML::Node&)>;

void read_manager(YamlReader& yaml, const YAML::Node& node, const Source& source, const ReadEnd& end, Fabric& fabric);

// The text itself, or the name of a file with it. Errors in it are those of the fabric file.
void read_partitions(YamlReader& yaml, const YAML::Node& node, const Source& source, Fabric& fabric);

}  // namespace softib::fabric
