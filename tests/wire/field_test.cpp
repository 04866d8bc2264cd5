// Fields lie where IBTA counts their bits, whatever their width and place.
#include "wire/field.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <array>
#include <functional>
#include <vector>

#include "wire/class_port_info.h"
#include "wire/mad.h"
#include "wire/notice.h"
#include "wire/perf_attributes.h"
#include "wire/smp_attributes.h"

namespace softib::wire {

namespace {

// Bit by bit, most significant first.
u64 slow_get(std::span<const u8> bytes, Field field) {
  u64 value = 0;
  for (u32 bit = field.at; bit < u32{field.at} + field.width; ++bit)
    value = value << 1 | (bytes[bit / 8] >> (7 - bit % 8) & 1U);
  return value;
}

u64 low_bits(u64 value, u32 width) { return width == 64 ? value : value & ((u64{1} << width) - 1); }

bool check(const char* what, const std::function<void()>& property) { return rc::check(what, property); }

}  // namespace

TEST(FieldTest, GetReadsBitByBit) {
  EXPECT_TRUE(check("get", [] {
    const auto bytes = *rc::gen::container<std::vector<u8>>(64, rc::gen::arbitrary<u8>());
    const auto width = *rc::gen::inRange<u32>(1, 65);
    const auto at = *rc::gen::inRange<u32>(0, 512 - width + 1);
    const Field field{static_cast<u16>(at), static_cast<u8>(width)};
    RC_ASSERT(get(bytes, field) == slow_get(bytes, field));
  }));
}

TEST(FieldTest, SetChangesNothingElse) {
  EXPECT_TRUE(check("set", [] {
    auto bytes = *rc::gen::container<std::vector<u8>>(64, rc::gen::arbitrary<u8>());
    const auto width = *rc::gen::inRange<u32>(1, 65);
    const auto at = *rc::gen::inRange<u32>(0, 512 - width + 1);
    const auto value = *rc::gen::arbitrary<u64>();
    const Field field{static_cast<u16>(at), static_cast<u8>(width)};
    const auto before = bytes;
    set(bytes, field, value);
    RC_ASSERT(get(bytes, field) == low_bits(value, width));
    set(bytes, field, get(before, field));
    RC_ASSERT(bytes == before);
  }));
}

TEST(FieldTest, OutsideReadsZeroAndIsntWritten) {
  std::array<u8, 8> bytes{};
  set(bytes, {60, 8}, 0xff);
  EXPECT_EQ(bytes, (std::array<u8, 8>{}));
  bytes.fill(0xff);
  EXPECT_EQ(get(bytes, {60, 8}), 0U);
  EXPECT_EQ(get(bytes, {60, 4}), 15U);
}

TEST(FieldTest, TheTablesLieInTheirData) {
  const Field last_of_smp[] = {node_info::vendor_id, switch_info::multicast_top, port_info::link_speed_ext_enabled,
                               guid_info::guid(7),   pkey_table::key(31),        vl_arbitration::weight(31),
                               sm_info::state,       notice::switch_port_259,    multicast_forwarding::mask(31)};
  for (const Field field : last_of_smp) EXPECT_LE(field.at + field.width, smp::data_size * 8) << field.at;
  const Field last_of_perf[] = {port_counters::xmit_wait,    port_counters_extended::qp1_dropped,
                                samples_control::select(14), samples_result::counter(14),
                                data_sl::words(15),          extended_speeds_counters::fec_uncorrectable(11),
                                class_port_info::trap_qkey};
  for (const Field field : last_of_perf) EXPECT_LE(field.at + field.width, perf::data_size * 8) << field.at;
}

// A PortInfo as an HCA sent it, taken apart by hand.
TEST(FieldTest, PortInfoOfARealPort) {
  std::array<u8, 64> bytes{};
  const u8 head[] = {0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0x0c, 0, 0x01, 0x26, 0x51, 0xe8, 0x48};
  std::copy(std::begin(head), std::end(head), bytes.begin() + 8);
  bytes[28] = 1;     // LocalPortNum
  bytes[31] = 2;     // LinkWidthActive
  bytes[32] = 0x74;  // LinkSpeedSupported, PortState
  bytes[33] = 0x52;  // PortPhysicalState, LinkDownDefaultState
  bytes[34] = 0x43;  // M_KeyProtectBits, LMC
  bytes[35] = 0x07;  // LinkSpeedActive, LinkSpeedEnabled
  bytes[51] = 0xf2;  // ClientReregister, trap suppression, SubnetTimeOut
  bytes[62] = 0x47;  // LinkSpeedExtActive, LinkSpeedExtSupported
  bytes[63] = 0x1f;
  EXPECT_EQ(get(bytes, port_info::gid_prefix), 0xfe80'0000'0000'0000U);
  EXPECT_EQ(get(bytes, port_info::lid), 12U);
  EXPECT_EQ(get(bytes, port_info::sm_lid), 1U);
  EXPECT_EQ(get(bytes, port_info::capability_mask), 0x2651'e848U);
  EXPECT_EQ(get(bytes, port_info::local_port), 1U);
  EXPECT_EQ(get(bytes, port_info::link_width_active), 2U);
  EXPECT_EQ(get(bytes, port_info::link_speed_supported), 7U);
  EXPECT_EQ(get(bytes, port_info::port_state), 4U);
  EXPECT_EQ(get(bytes, port_info::physical_state), 5U);
  EXPECT_EQ(get(bytes, port_info::link_down_default_state), 2U);
  EXPECT_EQ(get(bytes, port_info::m_key_protect_bits), 1U);
  EXPECT_EQ(get(bytes, port_info::lmc), 3U);
  EXPECT_EQ(get(bytes, port_info::link_speed_enabled), 7U);
  EXPECT_EQ(get(bytes, port_info::client_reregister), 1U);
  EXPECT_EQ(get(bytes, port_info::subnet_timeout), 18U);
  EXPECT_EQ(get(bytes, port_info::link_speed_ext_active), 4U);
  EXPECT_EQ(get(bytes, port_info::link_speed_ext_supported), 7U);
  EXPECT_EQ(get(bytes, port_info::link_speed_ext_enabled), 31U);
}

}  // namespace softib::wire
