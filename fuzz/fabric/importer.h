// What every importer owes, whatever it is given.
#pragma once

#include <string_view>

#include "../require.h"
#include "fabric/topo/export.h"
#include "fabric/topo/import.h"

namespace softib::fuzz {

inline void require_line(std::string_view text) { require(text.find('\n') == text.npos && text.starts_with("fuzz:")); }

// One line of text, or a fabric that its own YAML describes and that has a dump.
inline void require_sound(const fabric::Parsed<fabric::topo::Imported>& imported) {
  if (!imported) return require_line(imported.error().text);
  for (const std::string& warning : imported->warnings) require_line(warning);
  const fabric::Fabric& fabric = imported->fabric;
  constexpr size_t most = 64;  // larger ones only cost time
  if (fabric.hosts.size() + fabric.switches.size() > most) return;
  auto again = fabric::parse(fabric::to_yaml(fabric), "again.yaml");
  require(again && *again == fabric);
  auto dumped = fabric::topo::import_ibnetdiscover(fabric::topo::to_ibnetdiscover(fabric), "dump");
  require(dumped && dumped->fabric.cables.size() == fabric.cables.size());
}

}  // namespace softib::fuzz
