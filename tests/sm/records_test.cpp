#include "sm/sa/records.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <string>

namespace softib::sm::sa {
namespace {

using Bytes = std::vector<u8>;

const RecordType all_types[] = {RecordType::node,
                                RecordType::port_info,
                                RecordType::sl_to_vl,
                                RecordType::switch_info,
                                RecordType::link,
                                RecordType::linear_forwarding,
                                RecordType::sm_info,
                                RecordType::guid_info,
                                RecordType::multicast_forwarding,
                                RecordType::service,
                                RecordType::pkey_table,
                                RecordType::vl_arbitration,
                                RecordType::path,
                                RecordType::multicast_member,
                                RecordType::inform_info_record};

TEST(Records, ComponentsLieOneAfterTheOtherAndWithinTheRecord) {
  for (const RecordType type : all_types) {
    const Layout* layout = find_layout(type);
    ASSERT_NE(layout, nullptr);
    EXPECT_EQ(layout->size % 8, 0);
    u32 end = 0;
    for (const Component& component : layout->components) {
      EXPECT_GE(component.at, end) << static_cast<u16>(type);
      end = component.at + component.width;
      EXPECT_LE(end, layout->size * 8U);
    }
  }
}

// As the specification numbers them.
TEST(Records, ComponentsOfPortInfoHaveTheirNumbers) {
  const auto components = find_layout(RecordType::port_info)->components;
  ASSERT_EQ(components.size(), 58U);
  EXPECT_EQ(components[5].at, 32 + 128);   // base LID
  EXPECT_EQ(components[7].at, 32 + 160);   // capability mask
  EXPECT_EQ(components[15].at, 32 + 260);  // port state
  EXPECT_EQ(components[20].at, 32 + 277);  // LMC
  EXPECT_EQ(components[31].at, 32 + 332);  // MTU cap
  EXPECT_EQ(components[45].at, 32 + 411);  // subnet time-out
  EXPECT_EQ(components[57].at, 32 + 507);  // extended speed enabled
}

TEST(Records, OneComponentDecides) {
  EXPECT_TRUE(rc::check([] {
    const Layout* layout =
        find_layout(*rc::gen::elementOf(std::vector<RecordType>(std::begin(all_types), std::end(all_types))));
    const auto which = *rc::gen::inRange<u32>(0, static_cast<u32>(layout->components.size()));
    const Component& component = layout->components[which];
    Bytes record = *rc::gen::container<Bytes>(layout->size, rc::gen::arbitrary<u8>());
    Bytes query = record;
    u64 others = 0;  // without selectors, which compare what random records don't hold
    for (u32 i = 0; i < layout->components.size(); ++i) {
      const Role role = layout->components[i].role;
      if (i != which && (role == Role::equal || role == Role::any || role == Role::bits)) others |= bit(i);
    }
    if (component.role == Role::equal) RC_ASSERT(matches(*layout, query, bit(which), record));
    const auto flip = component.at + *rc::gen::inRange<u32>(0, component.width);
    query[flip / 8] ^= static_cast<u8>(0x80 >> flip % 8);
    RC_ASSERT(matches(*layout, query, others, record));
    if (component.role == Role::equal) RC_ASSERT(!matches(*layout, query, bit(which), record));
    if (component.role == Role::any) RC_ASSERT(matches(*layout, query, bit(which), record));
  }));
}

TEST(Records, SelectorsCompare) {
  const Layout* layout = find_layout(RecordType::path);
  Bytes record(64), query(64);
  wire::set(record, path::rate, 7);  // 40 Gb/s
  wire::set(query, path::rate, 16);  // 100 Gb/s has the larger code, 20 the smaller
  const u64 both = bit(path::has_rate) | bit(path::has_rate_selector);
  const auto with = [&](Selector how, u8 code) {
    wire::set(query, path::rate_selector, static_cast<u8>(how));
    wire::set(query, path::rate, code);
    return matches(*layout, query, both, record);
  };
  EXPECT_TRUE(with(Selector::less, 16));
  EXPECT_FALSE(with(Selector::greater, 16));
  EXPECT_TRUE(with(Selector::greater, 15));  // 25 Gb/s, a larger code than 40's
  EXPECT_TRUE(with(Selector::exactly, 7));
  EXPECT_TRUE(with(Selector::largest, 0));
  wire::set(query, path::rate_selector, static_cast<u8>(Selector::greater));
  wire::set(query, path::rate, 21);
  EXPECT_TRUE(matches(*layout, query, bit(path::has_rate), record)) << "a value without its selector says nothing";
}

TEST(Records, CapabilitiesMatchAsBitsOnlyWhenAsked) {
  const Layout* layout = find_layout(RecordType::port_info);
  Bytes record(72), query(72);
  wire::set(record, {192, 32}, 0x1a);
  wire::set(query, {192, 32}, 0x02);
  EXPECT_TRUE(matches(*layout, query, bit(7), record, true));
  EXPECT_FALSE(matches(*layout, query, bit(7), record, false));
}

}  // namespace
}  // namespace softib::sm::sa
