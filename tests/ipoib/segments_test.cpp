#include "ipoib/segments.h"

#include <gtest/gtest.h>

#include <numeric>

#include "ipoib/checksum.h"

namespace softib::ipoib {
namespace {

struct Large {
  VnetHeader header;
  Bytes packet;
};

// As the kernel hands over a TCP packet of `payload` bytes: the checksum is that of the pseudo header.
Large large(Family family, u32 payload, u16 step) {
  const bool v4 = family == Family::v4;
  const u32 ip = v4 ? 20 : 40, options = 12, tcp = 20 + options;
  Large made;
  made.packet.resize(ip + tcp + payload);
  u8* at = made.packet.data();
  at[0] = v4 ? 0x45 : 0x60;
  put16(at + (v4 ? 2 : 4), static_cast<u16>(v4 ? made.packet.size() : made.packet.size() - ip));
  at[v4 ? 9 : 6] = 6;
  at[v4 ? 8 : 7] = 64;
  if (v4) put16(at + 4, 0xfffe);  // identification, about to wrap
  if (v4) put16(at + 6, 0x4000);
  at[v4 ? 12 : 8] = 10;
  at[v4 ? 16 : 24] = 11;
  u8* head = at + ip;
  put16(head, 1000);
  put16(head + 2, 2000);
  put32(head + 4, 0xffff'f000);  // the sequence number wraps
  put32(head + 8, 77);
  head[12] = static_cast<u8>(tcp / 4 << 4);
  head[13] = 0x10 | 8 | 0x80;  // ACK, PSH, CWR
  put16(head + 14, 500);
  for (u32 i = 0; i < payload; ++i) at[ip + tcp + i] = static_cast<u8>(i * 7 + i / 251);
  const auto parsed = parse_ip_packet(made.packet).value();
  put16(head + 16, fold(pseudo_header(parsed.source, parsed.destination, Protocol::tcp, tcp + payload)));
  made.header.flags = VnetHeader::needs_checksum;
  made.header.gso_type = v4 ? VnetHeader::tcp4 : VnetHeader::tcp6;
  made.header.gso_size = step;
  made.header.hdr_len = static_cast<u16>(ip + tcp);
  made.header.csum_start = static_cast<u16>(ip);
  made.header.csum_offset = 16;
  return made;
}

enum class Sums : u8 { made, open };

std::vector<Bytes> cut(const Large& whole, Sums sums = Sums::made) {
  const auto cutter = Cutter::of(whole.header, whole.packet).value();
  std::vector<Bytes> pieces;
  for (u32 i = 0; i < cutter.count(); ++i) {
    Bytes piece(Cutter::most_header);
    const Segment segment = cutter.write(i, piece.data(), sums == Sums::open);
    piece.resize(segment.header_size);
    const auto from = whole.packet.begin() + segment.payload_at;
    piece.insert(piece.end(), from, from + segment.payload_size);
    pieces.push_back(std::move(piece));
  }
  return pieces;
}

// What parts of one write to the TUN device say.
Bytes joined(std::span<const iovec> parts) {
  Bytes all;
  for (const iovec& part : parts) {
    const auto* at = static_cast<const u8*>(part.iov_base);
    all.insert(all.end(), at, at + part.iov_len);
  }
  return all;
}

class SegmentsTest : public ::testing::TestWithParam<Family> {};
INSTANTIATE_TEST_SUITE_P(Families, SegmentsTest, ::testing::Values(Family::v4, Family::v6),
                         [](const auto& one) { return one.param == Family::v4 ? "v4" : "v6"; });

TEST_P(SegmentsTest, CutPacketsAreWholePacketsThemselves) {
  const Large whole = large(GetParam(), 10'000, 1'992);
  const auto pieces = cut(whole);
  ASSERT_EQ(pieces.size(), 6U);
  u32 sequence = 0xffff'f000;
  u16 number = 0xfffe;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const Bytes& piece = pieces[i];
    const auto ip = parse_ip_packet(piece);
    ASSERT_TRUE(ip);
    EXPECT_EQ(ip->size, piece.size());
    EXPECT_TRUE(has_good_checksum(piece, *ip)) << i;
    const u8* tcp = piece.data() + ip->header_size;
    EXPECT_EQ(get32(tcp + 4), sequence);
    EXPECT_EQ(tcp[13] & 8, i + 1 == pieces.size() ? 8 : 0) << "PSH goes with the last";
    EXPECT_EQ(tcp[13] & 0x80, i == 0 ? 0x80 : 0) << "CWR goes with the first";
    if (GetParam() == Family::v4) {
      EXPECT_EQ(checksum(View(piece).first(20)), 0);
      EXPECT_EQ(get16(&piece[4]), number++);
    }
    sequence += static_cast<u32>(piece.size()) - ip->header_size - 32;
  }
}

TEST_P(SegmentsTest, WhatIsCutComesTogetherAgain) {
  Large whole = large(GetParam(), 10'000, 1'992);
  const u32 head = GetParam() == Family::v4 ? 20 : 40;
  whole.packet[head + 13] = 0x10 | 8;  // CWR keeps a packet alone
  auto pieces = cut(whole);
  Gatherer gatherer;
  for (Bytes& piece : pieces) ASSERT_TRUE(gatherer.add(piece, false));
  EXPECT_FALSE(gatherer.empty());
  const auto [header, parts] = gatherer.take();
  const Bytes together = joined(parts);
  EXPECT_EQ(header.gso_size, 1'992);
  EXPECT_EQ(header.gso_type, whole.header.gso_type);
  EXPECT_EQ(header.csum_start, whole.header.csum_start);
  if (GetParam() == Family::v4) {
    EXPECT_EQ(checksum(View(together).first(20)), 0);
    put16(&whole.packet[10], get16(&together[10]));
  }
  EXPECT_EQ(together, whole.packet);
  EXPECT_TRUE(gatherer.empty());
}

TEST(Gatherer, KeepsApartWhatDoesNotFollow) {
  Large whole = large(Family::v4, 3 * 1'992, 1'992);
  whole.packet[33] = 0x10;
  const auto pieces = cut(whole);
  const auto together = [&](const std::function<void(Bytes&)>& change) {
    Bytes first = pieces[0], second = pieces[1];
    change(second);
    put16(&second[20 + 16], 0);
    const auto ip = parse_ip_packet(second).value();
    const u32 length = ip.size - ip.header_size;
    put16(&second[20 + 16],
          checksum(View(second).subspan(20, length), pseudo_header(ip.source, ip.destination, Protocol::tcp, length)));
    Gatherer gatherer;
    EXPECT_TRUE(gatherer.add(first, false));
    return gatherer.add(second, false);
  };
  EXPECT_TRUE(together([](Bytes&) {}));
  for (const u32 at : {1U, 8U, 15U, 19U, 20U, 23U, 27U, 31U, 35U, 45U})  // each of what must be the same
    EXPECT_FALSE(together([at](Bytes& packet) { packet[at] ^= 1; })) << at;
  EXPECT_FALSE(together([](Bytes& packet) { packet[33] |= 1; })) << "FIN";
  EXPECT_FALSE(together([](Bytes& packet) { packet[33] |= 4; })) << "RST";
  EXPECT_FALSE(together([](Bytes& packet) { put16(&packet[6], 0x2000); })) << "a fragment";

  Bytes first = pieces[0], wrong = pieces[1], third = pieces[2];
  Gatherer gatherer;
  ASSERT_TRUE(gatherer.add(first, false));
  EXPECT_FALSE(gatherer.add(third, false)) << "a gap";
  wrong.back() ^= 1;
  EXPECT_FALSE(gatherer.add(wrong, false)) << "a wrong checksum";
}

TEST(Gatherer, HasAnEnd) {
  Large whole = large(Family::v4, 100 * 500, 500);
  whole.packet[33] = 0x10;
  auto pieces = cut(whole);
  Gatherer gatherer;
  std::size_t taken = 0;
  while (taken < pieces.size() && gatherer.add(pieces[taken], false)) ++taken;
  EXPECT_EQ(taken, Gatherer::most_pieces);
  EXPECT_EQ(gatherer.take().parts.size(), Gatherer::most_pieces + 1);
}

TEST(Cutter, RefusesWhatMakesNoSense) {
  const Large good = large(Family::v4, 5'000, 1'000);
  const auto refused = [&](const std::function<void(Large&)>& change) {
    Large bad = good;
    change(bad);
    return !Cutter::of(bad.header, bad.packet);
  };
  EXPECT_FALSE(refused([](Large&) {}));
  EXPECT_TRUE(refused([](Large& one) { one.header.gso_size = 0; }));
  EXPECT_TRUE(refused([](Large& one) { one.header.gso_type = VnetHeader::tcp6; }));
  EXPECT_TRUE(refused([](Large& one) { one.header.csum_start = 4; }));
  EXPECT_TRUE(refused([](Large& one) { one.header.csum_start = 60'000; }));
  EXPECT_TRUE(refused([](Large& one) { one.header.csum_offset = 6; }));
  EXPECT_TRUE(refused([](Large& one) { one.packet[32] = 0x10; }));  // a TCP header of 4 bytes
  EXPECT_TRUE(refused([](Large& one) { one.packet.resize(30); }));
}

// Each segment is what the kernel would have left to a network card, and so is the whole that comes out.
TEST_P(SegmentsTest, OpenChecksumsStayOpenAllTheWay) {
  const Large whole = large(GetParam(), 10'000, 1'992);
  ASSERT_TRUE(may_stay_open(whole.header, whole.packet));
  auto pieces = cut(whole, Sums::open);
  Bytes first = pieces[0];
  for (Bytes piece : pieces) {
    const auto ip = parse_ip_packet(piece).value();
    EXPECT_FALSE(has_good_checksum(piece, ip));
    const auto header = header_of_open(piece);
    ASSERT_TRUE(header);
    EXPECT_TRUE(finish_checksum(*header, piece));
    EXPECT_TRUE(has_good_checksum(piece, ip));
  }
  Gatherer gatherer;
  EXPECT_FALSE(gatherer.add(first, false)) << "a packet that does not say so has no checksum";
  pieces[0][(GetParam() == Family::v4 ? 20 : 40) + 13] = 0x10;  // CWR keeps a packet alone
  for (Bytes& piece : pieces) ASSERT_TRUE(gatherer.add(piece, true));
  const auto [header, parts] = gatherer.take();
  Bytes together = joined(parts);
  EXPECT_TRUE(finish_checksum(header, together));
  EXPECT_TRUE(has_good_checksum(together, *parse_ip_packet(together)));
}

TEST(Checksums, StayOpenOnlyWhereTheReceiverFindsThem) {
  const auto allowed = [](const std::function<void(Large&)>& change) {
    Large one = large(Family::v4, 100, 0);
    change(one);
    return may_stay_open(one.header, one.packet);
  };
  EXPECT_TRUE(allowed([](Large&) {}));
  EXPECT_FALSE(allowed([](Large& one) { one.header.flags = 0; })) << "nothing is open";
  EXPECT_FALSE(allowed([](Large& one) { one.header.csum_start = 24; }));
  EXPECT_FALSE(allowed([](Large& one) { one.header.csum_offset = 6; })) << "of UDP";
  EXPECT_FALSE(allowed([](Large& one) { one.packet[9] = 47; })) << "a tunnel";
  EXPECT_FALSE(allowed([](Large& one) { put16(&one.packet[6], 0x2000); })) << "a fragment";
  EXPECT_FALSE(allowed([](Large& one) { put16(&one.packet[2], 37); })) << "cut off before the checksum";
}

TEST(Checksums, AreFinishedAsTheKernelAsks) {
  Large one = large(Family::v4, 100, 0);
  ASSERT_TRUE(finish_checksum(one.header, one.packet));
  EXPECT_TRUE(has_good_checksum(one.packet, *parse_ip_packet(one.packet)));
  one.header.csum_start = 60'000;
  EXPECT_FALSE(finish_checksum(one.header, one.packet));
}

}  // namespace
}  // namespace softib::ipoib
