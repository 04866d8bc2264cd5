// What of a port's record in the segment changes while the fabric runs, as one value. Any process can write the
// segment, so the lengths that stand in it are held to their tables.
#pragma once

#include <span>

#include "fabric/sysfs.h"
#include "ipc/segment.h"

namespace softib::daemon {

[[nodiscard]] std::span<const u16> pkeys_of(const ipc::Port& port);
[[nodiscard]] std::span<const ipc::Gid> gids_of(const ipc::Port& port);

[[nodiscard]] fabric::PortStatus read_status(const ipc::Port& port);
// The state last: who sees it ACTIVE sees the rest.
void write_status(ipc::Port& port, const fabric::PortStatus& status);

}  // namespace softib::daemon
