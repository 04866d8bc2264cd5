#include "ipoib/packets.h"
#include "texts.h"

#include <gtest/gtest.h>

#include "ipoib/checksum.h"
#include "ipoib/connection_message.h"

namespace softib::ipoib {
namespace {

HardwareAddress hardware(u32 qpn) { return {0, qpn, {0xfe, 0x80, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8}}; }

TEST(Checksum, IsThatOfRfc1071) {
  const u8 example[] = {0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7};
  EXPECT_EQ(fold(sum_words(example)), 0xddf2);
  EXPECT_EQ(checksum(example), static_cast<u16>(~0xddf2));
}

// Against the plain definition, for all lengths and what was summed before.
TEST(Checksum, AgreesWithTheDefinition) {
  Bytes bytes(200);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<u8>(i * 37 + 11);
  for (std::size_t size = 0; size <= bytes.size(); ++size) {
    u64 plain = 0xfffe;
    for (std::size_t i = 0; i < size; ++i) plain += u64{bytes[i]} << (i % 2 ? 0 : 8);
    EXPECT_EQ(fold(sum_words(View(bytes).first(size), 0xfffe)), fold(plain)) << size;
  }
}

TEST(Arp, IsThatOfRfc4391) {
  const AddressNews news{AskKind::question, ip("10.0.0.1"), hardware(0x123456), ip("10.0.0.2"), false, true};
  const Bytes packet = emit_arp(news, {});
  ASSERT_EQ(packet.size(), 56U);
  EXPECT_EQ(get16(&packet[0]), 32);
  EXPECT_EQ(get16(&packet[2]), 0x0800);
  EXPECT_EQ(packet[4], 20);
  EXPECT_EQ(get32(&packet[8]), 0x00123456U);
  const auto back = parse_arp(packet);
  ASSERT_TRUE(back);
  EXPECT_EQ(back->kind, AskKind::question);
  EXPECT_EQ(back->sender, news.sender);
  EXPECT_EQ(back->target, news.target);
  EXPECT_EQ(back->sender_hardware, news.sender_hardware);
  EXPECT_FALSE(back->probe);
}

TEST(Arp, WhatIsNotItIsRefused) {
  const AddressNews news{AskKind::answer, ip("10.0.0.1"), hardware(1), ip("10.0.0.2"), false, true};
  const Bytes good = emit_arp(news, hardware(2));
  ASSERT_TRUE(parse_arp(good));
  EXPECT_FALSE(parse_arp(View(good).first(55)));
  for (const u32 at : {0U, 1U, 2U, 4U, 5U, 6U}) {
    Bytes bad = good;
    bad[at] ^= 0x40;
    EXPECT_FALSE(parse_arp(bad)) << at;
  }
  Bytes group = good;
  group[28] = 224;
  EXPECT_FALSE(parse_arp(group));
}

TEST(Discovery, QuestionAndAnswerComeBackAsTheyWent) {
  const AddressNews question{AskKind::question, ip("fe80::1"), hardware(7), ip("fe80::2"), false, true};
  Bytes packet = emit_discovery(question, solicited_node(question.target), false);
  EXPECT_EQ(packet.size(), 40U + 24 + 24);
  EXPECT_EQ(packet[7], 255);
  EXPECT_EQ(packet[40 + 24], 1);  // option: source
  EXPECT_EQ(packet[40 + 25], 3);  // of 24 bytes, two of them padding
  EXPECT_EQ(get16(&packet[40 + 26]), 0);
  auto back = parse_discovery(packet);
  ASSERT_TRUE(back);
  EXPECT_EQ(back->kind, AskKind::question);
  EXPECT_EQ(back->sender, question.sender);
  EXPECT_EQ(back->sender_hardware, question.sender_hardware);
  EXPECT_EQ(parse_ip_packet(packet)->destination, ip("ff02::1:ff00:2"));

  const AddressNews answer{AskKind::answer, ip("fe80::2"), hardware(8), ip("fe80::2"), false, false};
  packet = emit_discovery(answer, question.sender, true);
  back = parse_discovery(packet);
  ASSERT_TRUE(back);
  EXPECT_EQ(back->kind, AskKind::answer);
  EXPECT_EQ(back->sender, answer.target);
  EXPECT_FALSE(back->override);
}

TEST(Discovery, WhatRouterOrLiarSentIsRefused) {
  const AddressNews question{AskKind::question, ip("fe80::1"), hardware(7), ip("fe80::2"), false, true};
  const Bytes good = emit_discovery(question, ip("fe80::2"), false);
  for (std::size_t size = 0; size < good.size(); ++size) EXPECT_FALSE(parse_discovery(View(good).first(size))) << size;
  Bytes passed_on = good;
  passed_on[7] = 254;
  EXPECT_FALSE(parse_discovery(passed_on));
  for (std::size_t at = 40; at < good.size(); ++at) {  // the checksum covers all of it
    Bytes bad = good;
    bad[at] ^= 1;
    EXPECT_FALSE(parse_discovery(bad)) << at;
  }
  const AddressNews unspecified{AskKind::question, ip("::"), std::nullopt, ip("fe80::2"), false, true};
  EXPECT_TRUE(parse_discovery(emit_discovery(unspecified, solicited_node(ip("fe80::2")), false))->probe);
}

Bytes udp_packet(const char* from, const char* to, u32 payload) {
  const Ip source = ip(from), destination = ip(to);
  Bytes packet(20 + 8 + payload);
  packet[0] = 0x45;
  put16(&packet[2], static_cast<u16>(packet.size()));
  put16(&packet[6], 0x4000);
  packet[8] = 64;
  packet[9] = 17;
  std::copy_n(source.bytes.begin(), 4, &packet[12]);
  std::copy_n(destination.bytes.begin(), 4, &packet[16]);
  return packet;
}

TEST(Icmp, TellsOfPacketsThatAreTooBig) {
  const Bytes packet = udp_packet("10.0.0.1", "10.0.0.2", 3000);
  const Bytes message = emit_too_big(packet, 2044);
  const auto about = parse_ip_packet(message);
  ASSERT_TRUE(about);
  EXPECT_EQ(about->source, ip("10.0.0.2"));
  EXPECT_EQ(about->destination, ip("10.0.0.1"));
  EXPECT_EQ(checksum(View(message).first(20)), 0);
  EXPECT_EQ(checksum(View(message).subspan(20)), 0);
  EXPECT_EQ(message[20], 3);
  EXPECT_EQ(message[21], 4);
  EXPECT_EQ(get16(&message[26]), 2044);
  EXPECT_EQ(message[28], 0x45);
}

TEST(Icmp, IsSilentAboutErrorsGroupsAndLaterFragments) {
  EXPECT_TRUE(emit_unreachable(udp_packet("10.0.0.1", "239.0.0.1", 10)).empty());
  EXPECT_TRUE(emit_unreachable(udp_packet("0.0.0.0", "10.0.0.1", 10)).empty());
  Bytes fragment = udp_packet("10.0.0.1", "10.0.0.2", 10);
  put16(&fragment[6], 100);
  EXPECT_TRUE(emit_unreachable(fragment).empty());
  const Bytes error = emit_unreachable(udp_packet("10.0.0.1", "10.0.0.2", 10));
  ASSERT_FALSE(error.empty());
  EXPECT_TRUE(emit_unreachable(error).empty());
  Bytes v6(48);
  v6[0] = 0x60;
  put16(&v6[4], 8);
  v6[6] = 17;
  const auto source = ip("fd00::1"), destination = ip("fd00::2");
  std::copy(source.bytes.begin(), source.bytes.end(), &v6[8]);
  std::copy(destination.bytes.begin(), destination.bytes.end(), &v6[24]);
  const Bytes of_v6 = emit_unreachable(v6);
  ASSERT_FALSE(of_v6.empty());
  EXPECT_EQ(of_v6[40], 1);
  EXPECT_TRUE(emit_unreachable(of_v6).empty());
}

TEST(ConnectionMessage, ComesBackAsItWent) {
  ConnectionMessage message{ConnectionMessage::Kind::accept, 0x12345678, 0xabcdef, 0xffffff, hardware(9), 65536};
  const Bytes bytes = message.emit();
  ASSERT_EQ(bytes.size(), ConnectionMessage::size);
  EXPECT_EQ(ConnectionMessage::parse(bytes), message);
  EXPECT_FALSE(ConnectionMessage::parse(View(bytes).first(39)));
  for (const auto& [at, value] : {std::pair{0, 2}, {1, 0}, {1, 5}, {8, 1}, {12, 1}}) {
    Bytes bad = bytes;
    bad[static_cast<std::size_t>(at)] = static_cast<u8>(value);
    EXPECT_FALSE(ConnectionMessage::parse(bad)) << at;
  }
}

}  // namespace
}  // namespace softib::ipoib
