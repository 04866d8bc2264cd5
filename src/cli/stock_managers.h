// `sm: opensm` as `softib up` sees it: the programs that softibd needs for it, and waiting until the subnets are up.
#pragma once

#include <string>
#include <vector>

#include "cli/interrupts.h"
#include "fabric/fabric.h"

namespace softib::cli {

// Options of softibd; none where it starts no other program.
[[nodiscard]] fabric::Parsed<std::vector<std::string>> options_for_managers(const fabric::Fabric& fabric);

// Returns once the stock managers have brought up their subnets. An error tells which has ended before, or takes too
// long, and the end of its log.
[[nodiscard]] fabric::Parsed<void> wait_for_managers(const fabric::Fabric& fabric, const std::string& dir,
                                                     Interrupts& interrupts);

}  // namespace softib::cli
