// Devices and ports of the segment, from the fabric's description.
#pragma once

#include <vector>

#include "fabric/fabric.h"
#include "ipc/segment.h"

namespace softib::daemon {

// Device and port records get indices from 1 in the order of the file. E2BIG: more than the tables hold.
[[nodiscard]] Result<void> populate(ipc::Segment& segment, const fabric::Fabric& fabric);

// Subnet of each port record, by index; [0] is unused.
[[nodiscard]] std::vector<u32> subnets_of_ports(const fabric::Fabric& fabric);

}  // namespace softib::daemon
