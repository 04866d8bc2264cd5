// Mellanox' own management class: who has its agent, and what that tells.
#include "wire/mellanox.h"
#include "lab.h"

namespace softib::net::test {

namespace general = wire::mellanox::general_info;

// Switches of Mellanox' make but sw1; host0's HCA is a ConnectX-6.
struct MellanoxTest : Lab {
  static fabric::Fabric mixed() {
    fabric::Fabric fabric = triangle();
    fabric.switches[1].vendor_id = 0x66a;
    fabric.switches[2].device_id = 0xabcd;
    fabric.hosts[0].hcas[0].model = "connectx-6";
    return fabric;
  }
  MellanoxTest() : Lab(mixed()) { bring_up(); }

  wire::Packet request(u16 dlid, Method method, u16 attribute) {
    wire::Packet packet = smp(MgmtClass::mellanox, {method, static_cast<SmpAttribute>(attribute), 0, {}, 0});
    packet.dlid = dlid;
    packet.source_qp = packet.destination_qp = 1;
    return packet;
  }
  Answer vendor(u16 dlid, u16 attribute, Method method = Method::get) {
    return ask(at_host(0), request(dlid, method, attribute));
  }
  Answer general_info(u16 dlid) { return vendor(dlid, 0x17); }
  static u64 field(const Answer& answer, wire::Field field) {
    return wire::get(std::span(answer.packet.mad).subspan(wire::mellanox::data_at), field);
  }
  static std::string psid(const Answer& answer) {
    return reinterpret_cast<const char*>(answer.packet.mad.data() + wire::mellanox::data_at + general::psid_at);
  }
};

TEST_F(MellanoxTest, ASwitchTellsWhatItIs) {
  const Answer answer = general_info(lid_of_switch(0));
  ASSERT_TRUE(answer.ok());
  EXPECT_EQ(field(answer, general::device_id), 0xd2f0U);
  EXPECT_EQ(field(answer, general::hw_revision), 0xa0U);
  EXPECT_EQ(field(answer, general::long_major), 27U);
  EXPECT_EQ(field(answer, general::long_minor), 2010U);
  EXPECT_EQ(field(answer, general::long_sub_minor), 4102U);
  EXPECT_EQ(field(answer, general::minor), 2010U & 0xff);
  EXPECT_EQ(psid(answer), "MT_0000000063");
}

TEST_F(MellanoxTest, AnHcaTellsWhatItsModelSays) {
  const Answer answer = general_info(lid_of_host(0));
  ASSERT_TRUE(answer.ok());
  EXPECT_EQ(field(answer, general::device_id), 4123U);
  EXPECT_EQ(field(answer, general::long_major), 20U);
  EXPECT_EQ(field(answer, general::long_sub_minor), 1002U);
  EXPECT_EQ(psid(answer), "MT_0000000223");
}

TEST_F(MellanoxTest, ADeviceThatIsNotKnownHasNoFirmwareToTellOf) {
  const Answer answer = general_info(lid_of_switch(2));
  ASSERT_TRUE(answer.ok());
  EXPECT_EQ(field(answer, general::device_id), 0xabcdU);
  EXPECT_EQ(field(answer, general::long_major), 0U);
  EXPECT_EQ(psid(answer), "");
}

TEST_F(MellanoxTest, UptimeCountsFromPowerUp) {
  (void)net_->on_time(1000 * second);
  (void)net_->on_time(1090 * second);
  EXPECT_EQ(field(general_info(lid_of_switch(0)), general::uptime), 90U);
  net_->power(sw0, false);
  net_->power(sw0, true);
  (void)net_->on_time(1095 * second);
  bring_up();
  EXPECT_EQ(field(general_info(lid_of_switch(0)), general::uptime), 5U);
}

TEST_F(MellanoxTest, ThereIsClassPortInfoAndNothingElse) {
  EXPECT_TRUE(vendor(lid_of_switch(0), 0x01).ok());
  for (const u16 attribute : {u16{0x02}, u16{0x50}, u16{0x90}})
    EXPECT_EQ(vendor(lid_of_switch(0), attribute).status, bad_attribute) << attribute;
  EXPECT_EQ(vendor(lid_of_switch(0), 0x17, Method::set).status, bad_attribute);
  wire::Packet later = request(lid_of_switch(0), Method::get, 0x17);
  wire::set(later.mad, wire::header::class_version, 2);
  EXPECT_EQ(ask(at_host(0), later).status, bad_version);
}

TEST_F(MellanoxTest, OthersDontHaveIt) {
  EXPECT_EQ(general_info(lid_of_switch(1)).status, bad_version);
  EXPECT_FALSE(general_info(lid_of_host(1)).came) << "it is the host's own business";
  EXPECT_EQ(inbox_.back().first, at_host(1));
}

}  // namespace softib::net::test
