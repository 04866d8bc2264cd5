// Where PMA shows what sysfs calls by its own names. As the kernel's driver core has it: traffic from the wide
// counters, errors from the narrow ones that stop at their ends.
#pragma once

#include "ipc/port_counters.h"
#include "net/network.h"

namespace softib::daemon {

[[nodiscard]] u64 counter_of_pma(net::Network& network, net::PortRef port, ipc::PortCounter counter);

}  // namespace softib::daemon
