// The interfaces of a host over InfiniBand, as softib-ipoib reads them from its command line.
#pragma once

#include <string>
#include <vector>

#include "fabric/fabric.h"

namespace softib::fabric {

// One for each port, in the order of the host's ports, with the port's addresses; none on Ethernet. The service makes
// those of further P_Keys by itself, as the subnet manager hands these out.
[[nodiscard]] std::vector<std::string> ipoib_interfaces(const Fabric& fabric, u32 host);

}  // namespace softib::fabric
