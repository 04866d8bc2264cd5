// Link speeds and widths of InfiniBand, one row per generation: how each is named, shown in sysfs and coded in verbs.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "base/types.h"

namespace softib::fabric {

// Values of ibv_port_attr.active_speed. XDR passes the 8 bits of that field: verbs shows it in active_speed_ex only.
enum class Speed : u16 { sdr = 1, ddr = 2, qdr = 4, fdr10 = 8, fdr = 16, edr = 32, hdr = 64, ndr = 128, xdr = 256 };

// Values of ibv_port_attr.active_width (LinkWidthActive).
enum class Width : u8 { x1 = 1, x4 = 2, x8 = 4, x12 = 8, x2 = 16 };

struct SpeedRow {
  Speed speed;
  std::string_view name;
  u32 shown_decigbps;  // per lane as sysfs shows it, in 0.1 Gb/s: the signalling rate up to QDR, data from FDR10 on
  u32 data_mbps;       // per lane after coding
  u8 link_speed;       // PortInfo LinkSpeedActive; 0 = look at the extended fields
  u8 link_speed_ext;   // LinkSpeedExtActive
  u8 link_speed_ext2;  // LinkSpeedExt2Active
};

inline constexpr std::array<SpeedRow, 9> speed_table{{
    {Speed::sdr, "SDR", 25, 2000, 1, 0, 0},
    {Speed::ddr, "DDR", 50, 4000, 2, 0, 0},
    {Speed::qdr, "QDR", 100, 8000, 4, 0, 0},
    {Speed::fdr10, "FDR10", 100, 10000, 4, 0, 0},
    {Speed::fdr, "FDR", 140, 13636, 0, 1, 0},
    {Speed::edr, "EDR", 250, 25000, 0, 2, 0},
    {Speed::hdr, "HDR", 500, 50000, 0, 4, 0},
    {Speed::ndr, "NDR", 1000, 100000, 0, 8, 0},
    {Speed::xdr, "XDR", 2000, 200000, 0, 0, 1},
}};

struct WidthRow {
  Width width;
  u32 lanes;
};

inline constexpr std::array<WidthRow, 5> width_table{
    {{Width::x1, 1}, {Width::x2, 2}, {Width::x4, 4}, {Width::x8, 8}, {Width::x12, 12}}};

[[nodiscard]] constexpr const SpeedRow& row_of(Speed speed) {
  for (const SpeedRow& row : speed_table)
    if (row.speed == speed) return row;
  return speed_table[0];
}

[[nodiscard]] constexpr u32 lanes_of(Width width) {
  for (const WidthRow& row : width_table)
    if (row.width == width) return row.lanes;
  return 1;
}

// What a link carries after coding, in Mb/s.
[[nodiscard]] constexpr u64 data_mbps(Speed speed, Width width) {
  return static_cast<u64>(row_of(speed).data_mbps) * lanes_of(width);
}

// PathRecord rate codes, in the order of the specification and not of their speed.
enum class PathRate : u8 {
  gbps_2_5 = 2,
  gbps_10 = 3,
  gbps_30 = 4,
  gbps_5 = 5,
  gbps_20 = 6,
  gbps_40 = 7,
  gbps_60 = 8,
  gbps_80 = 9,
  gbps_120 = 10,
  gbps_14 = 11,
  gbps_56 = 12,
  gbps_112 = 13,
  gbps_168 = 14,
  gbps_25 = 15,
  gbps_100 = 16,
  gbps_200 = 17,
  gbps_300 = 18,
  gbps_28 = 19,
  gbps_50 = 20,
  gbps_400 = 21,
  gbps_600 = 22,
  gbps_800 = 23,
  gbps_1200 = 24,
};

// The PathRecord code of a link; nothing where the specification has none (12X XDR).
[[nodiscard]] std::optional<PathRate> path_rate(Speed speed, Width width);

// "HDR", in any case.
[[nodiscard]] std::optional<Speed> speed_from_name(std::string_view name);
// "4x", "4X" or "4".
[[nodiscard]] std::optional<Width> width_from_name(std::string_view name);

[[nodiscard]] constexpr std::string_view name_of(Speed speed) { return row_of(speed).name; }
[[nodiscard]] std::string name_of(Width width);  // "4x"

// What sysfs `rate` holds, without the newline: "200 Gb/sec (4X HDR)", "2.5 Gb/sec (1X SDR)".
[[nodiscard]] std::string sysfs_rate(Speed speed, Width width);

}  // namespace softib::fabric
