#include "fabric/rates.h"

#include <gtest/gtest.h>

#include <set>

namespace softib::fabric {
namespace {

TEST(Rates, SysfsTextIsTheKernels) {
  EXPECT_EQ(sysfs_rate(Speed::sdr, Width::x1), "2.5 Gb/sec (1X SDR)");
  EXPECT_EQ(sysfs_rate(Speed::sdr, Width::x4), "10 Gb/sec (4X SDR)");
  EXPECT_EQ(sysfs_rate(Speed::ddr, Width::x4), "20 Gb/sec (4X DDR)");
  EXPECT_EQ(sysfs_rate(Speed::qdr, Width::x4), "40 Gb/sec (4X QDR)");
  EXPECT_EQ(sysfs_rate(Speed::fdr10, Width::x4), "40 Gb/sec (4X FDR10)");
  EXPECT_EQ(sysfs_rate(Speed::fdr, Width::x4), "56 Gb/sec (4X FDR)");
  EXPECT_EQ(sysfs_rate(Speed::edr, Width::x4), "100 Gb/sec (4X EDR)");
  EXPECT_EQ(sysfs_rate(Speed::hdr, Width::x4), "200 Gb/sec (4X HDR)");
  EXPECT_EQ(sysfs_rate(Speed::hdr, Width::x2), "100 Gb/sec (2X HDR)");
  EXPECT_EQ(sysfs_rate(Speed::ndr, Width::x4), "400 Gb/sec (4X NDR)");
  EXPECT_EQ(sysfs_rate(Speed::xdr, Width::x4), "800 Gb/sec (4X XDR)");
  EXPECT_EQ(sysfs_rate(Speed::edr, Width::x12), "300 Gb/sec (12X EDR)");
}

TEST(Rates, DataRates) {
  EXPECT_EQ(data_mbps(Speed::sdr, Width::x4), 8000U);
  EXPECT_EQ(data_mbps(Speed::qdr, Width::x4), 32000U);
  EXPECT_EQ(data_mbps(Speed::fdr, Width::x4), 54544U);
  EXPECT_EQ(data_mbps(Speed::hdr, Width::x4), 200000U);
  EXPECT_EQ(data_mbps(Speed::xdr, Width::x4), 800000U);
}

TEST(Rates, PathRecordCodes) {
  EXPECT_EQ(path_rate(Speed::sdr, Width::x1), PathRate::gbps_2_5);
  EXPECT_EQ(path_rate(Speed::fdr, Width::x1), PathRate::gbps_14);
  EXPECT_EQ(path_rate(Speed::fdr, Width::x12), PathRate::gbps_168);
  EXPECT_EQ(path_rate(Speed::qdr, Width::x4), PathRate::gbps_40);
  EXPECT_EQ(path_rate(Speed::edr, Width::x4), PathRate::gbps_100);
  EXPECT_EQ(path_rate(Speed::hdr, Width::x4), PathRate::gbps_200);
  EXPECT_EQ(path_rate(Speed::ndr, Width::x12), PathRate::gbps_1200);
  EXPECT_EQ(path_rate(Speed::xdr, Width::x12), std::nullopt);
  EXPECT_EQ(static_cast<int>(PathRate::gbps_5), 5);
  EXPECT_EQ(static_cast<int>(PathRate::gbps_800), 23);
}

// Every link that can be described has a code, up to where the codes end.
TEST(Rates, EveryLinkHasACode) {
  for (const SpeedRow& speed : speed_table)
    for (const WidthRow& width : width_table)
      if (data_mbps(speed.speed, width.width) <= 1'200'000) {
        EXPECT_TRUE(path_rate(speed.speed, width.width)) << sysfs_rate(speed.speed, width.width);
      }
}

TEST(Rates, NamesReadBack) {
  for (const SpeedRow& row : speed_table) EXPECT_EQ(speed_from_name(row.name), row.speed);
  EXPECT_EQ(speed_from_name("hdr"), Speed::hdr);
  EXPECT_EQ(speed_from_name("HDR100"), std::nullopt);
  EXPECT_EQ(speed_from_name(""), std::nullopt);
  for (const WidthRow& row : width_table) EXPECT_EQ(width_from_name(name_of(row.width)), row.width);
  EXPECT_EQ(width_from_name("4"), Width::x4);
  EXPECT_EQ(width_from_name("12X"), Width::x12);
  EXPECT_EQ(width_from_name("3x"), std::nullopt);
  EXPECT_EQ(width_from_name("x"), std::nullopt);
}

TEST(Rates, PortInfoFieldsSayOneSpeed) {
  std::set<int> codes;
  for (const SpeedRow& row : speed_table) {
    EXPECT_EQ((row.link_speed != 0) + (row.link_speed_ext != 0) + (row.link_speed_ext2 != 0), 1) << row.name;
    EXPECT_TRUE(codes.insert(static_cast<int>(row.speed)).second);
  }
  EXPECT_EQ(*codes.rbegin(), 256);
}

}  // namespace
}  // namespace softib::fabric
