// complete() with the place of a fault, so that the parser can name its line.
#pragma once

#include <compare>
#include <string>

#include "fabric/fabric.h"

namespace softib::fabric {

enum class Part : u8 { fabric, host, hca, port, sw, cable };

// Indices into the description: host, host.hca, host.hca.port, switch or cable.
struct Where {
  Part part = Part::fabric;
  u32 a = 0;
  u32 b = 0;
  u32 c = 0;
  friend auto operator<=>(const Where&, const Where&) = default;
};

struct Fault {
  Where where;
  std::string text;
};

using Check = tl::expected<void, Fault>;

[[nodiscard]] tl::expected<Fabric, Fault> complete_located(Fabric fabric);

// What the segment and sysfs naming allow.
inline constexpr u32 max_hosts = ipc::max_devices - 1;
inline constexpr u32 max_hcas_per_host = 32;
inline constexpr u32 max_ports_per_hca = 4;
inline constexpr u32 max_switch_ports = 254;
inline constexpr u32 max_switches = 16384;
inline constexpr u8 most_lmc = 7;

}  // namespace softib::fabric
