// Link speeds as PortInfo has them, in three fields and a vendor's attribute, and as one mask of fabric::Speed.
#pragma once

#include <optional>

#include "fabric/rates.h"

namespace softib::net {

inline constexpr u16 plain_speeds = 0x0007;      // SDR, DDR, QDR
inline constexpr u16 fdr10_speed = 0x0008;       // the vendor's
inline constexpr u16 extended_speeds = 0x00f0;   // FDR, EDR, HDR, NDR
inline constexpr u16 extended2_speeds = 0x0100;  // XDR
inline constexpr u32 extended_shift = 4;
inline constexpr u32 extended2_shift = 8;

[[nodiscard]] constexpr u8 plain_part(u16 speeds) { return speeds & plain_speeds; }
[[nodiscard]] constexpr u8 extended_part(u16 speeds) {
  return static_cast<u8>((speeds & extended_speeds) >> extended_shift);
}
[[nodiscard]] constexpr u8 extended2_part(u16 speeds) {
  return static_cast<u8>((speeds & extended2_speeds) >> extended2_shift);
}

}  // namespace softib::net
