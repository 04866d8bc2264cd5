// Programs beside softibd, as `softib up` sees them: those that softibd is to start, and waiting until a stock subnet
// manager has brought the subnets up.
#pragma once

#include <string>
#include <vector>

#include "cli/interrupts.h"
#include "fabric/fabric.h"

namespace softib::cli {

// Options of softibd: where the programs are that this fabric needs.
[[nodiscard]] fabric::Parsed<std::vector<std::string>> options_for_daemon(const fabric::Fabric& fabric);

// Until the programs of aggregation nodes are ready; not for ever, as all else works without them.
[[nodiscard]] fabric::Parsed<void> wait_for_aggregation(const fabric::Fabric& fabric, const std::string& dir,
                                                        Interrupts& interrupts);

// Returns once the stock managers have brought up their subnets. An error tells which has ended before, or takes too
// long, and the end of its log.
[[nodiscard]] fabric::Parsed<void> wait_for_managers(const fabric::Fabric& fabric, const std::string& dir,
                                                     Interrupts& interrupts);

}  // namespace softib::cli
