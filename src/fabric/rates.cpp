#include "fabric/rates.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

namespace softib::fabric {

namespace {

struct PathRateRow {
  PathRate code;
  u32 decigbps;
};

// Signalling rates of the lanes times their number, with FDR's 14.0625 counted as 14 and everything later by its data.
constexpr std::array<PathRateRow, 23> path_rate_table{{
    {PathRate::gbps_2_5, 25},   {PathRate::gbps_5, 50},     {PathRate::gbps_10, 100},     {PathRate::gbps_14, 140},
    {PathRate::gbps_20, 200},   {PathRate::gbps_25, 250},   {PathRate::gbps_28, 280},     {PathRate::gbps_30, 300},
    {PathRate::gbps_40, 400},   {PathRate::gbps_50, 500},   {PathRate::gbps_56, 560},     {PathRate::gbps_60, 600},
    {PathRate::gbps_80, 800},   {PathRate::gbps_100, 1000}, {PathRate::gbps_112, 1120},   {PathRate::gbps_120, 1200},
    {PathRate::gbps_168, 1680}, {PathRate::gbps_200, 2000}, {PathRate::gbps_300, 3000},   {PathRate::gbps_400, 4000},
    {PathRate::gbps_600, 6000}, {PathRate::gbps_800, 8000}, {PathRate::gbps_1200, 12000},
}};

bool same_letters(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](unsigned char x, unsigned char y) { return std::toupper(x) == std::toupper(y); });
}

u32 shown_decigbps(Speed speed, Width width) { return row_of(speed).shown_decigbps * lanes_of(width); }

}  // namespace

std::optional<PathRate> path_rate(Speed speed, Width width) {
  for (const PathRateRow& row : path_rate_table)
    if (row.decigbps == shown_decigbps(speed, width)) return row.code;
  return std::nullopt;
}

std::optional<Speed> speed_from_name(std::string_view name) {
  for (const SpeedRow& row : speed_table)
    if (same_letters(row.name, name)) return row.speed;
  return std::nullopt;
}

std::optional<Width> width_from_name(std::string_view name) {
  if (!name.empty() && (name.back() == 'x' || name.back() == 'X')) name.remove_suffix(1);
  for (const WidthRow& row : width_table)
    if (std::to_string(row.lanes) == name) return row.width;
  return std::nullopt;
}

std::string name_of(Width width) { return fmt::format("{}x", lanes_of(width)); }

std::string sysfs_rate(Speed speed, Width width) {
  u32 rate = shown_decigbps(speed, width);
  return fmt::format("{}{} Gb/sec ({}X {})", rate / 10, rate % 10 ? ".5" : "", lanes_of(width), name_of(speed));
}

}  // namespace softib::fabric
