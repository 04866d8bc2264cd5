// Messages of communication management: where their parts lie, byte by byte, and that nothing gets lost on the way.
#include "wire/cm.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

namespace softib::wire::cm {
namespace {

u8 byte(const Mad& mad, u32 at) { return mad[data_at + at]; }

template <typename Data>
void fill(Data& data, u8 first) {
  std::iota(data.begin(), data.end(), first);
}

PathFields path(u8 seed) {
  PathFields fields;
  fields.local_lid = static_cast<u16>(0x0100 + seed);
  fields.remote_lid = static_cast<u16>(0x0200 + seed);
  fill(fields.local_gid, seed);
  fill(fields.remote_gid, static_cast<u8>(seed + 16));
  fields.flow_label = 0xabcde;
  fields.rate = 0x2a;
  fields.traffic_class = 0x5c;
  fields.hop_limit = 0x40;
  fields.sl = 9;
  fields.subnet_local = 1;
  fields.ack_timeout = 0x13;
  return fields;
}

Req request() {
  Req req;
  req.local_id = 0x01020304;
  req.service_id = 0x0000'0000'0106'1ce4;
  req.local_ca_guid = 0x1122'3344'5566'7788;
  req.local_qkey = 0x80010000;
  req.local_qpn = 0xabcdef;
  req.responder_resources = 7;
  req.local_eecn = 0x112233;
  req.initiator_depth = 5;
  req.remote_eecn = 0x445566;
  req.remote_response_timeout = 20;
  req.transport = 1;
  req.flow_control = 1;
  req.starting_psn = 0x123456;
  req.local_response_timeout = 21;
  req.retry_count = 6;
  req.pkey = 0x8001;
  req.mtu = 5;
  req.rdc_exists = 1;
  req.rnr_retry_count = 7;
  req.max_cm_retries = 15;
  req.srq = 1;
  req.extended_transport = 1;
  req.primary = path(1);
  req.alternate = path(0x80);
  fill(req.private_data, 0x30);
  return req;
}

TEST(CmWire, HeaderNamesClassVersionMethodAndAttribute) {
  const Mad mad = emit(Rtu{}, 0x1122334455667788);
  EXPECT_EQ(mad[0], 1);
  EXPECT_EQ(mad[1], 0x07);
  EXPECT_EQ(mad[2], 2);
  EXPECT_EQ(mad[3], 0x03);
  EXPECT_EQ(mad[8], 0x11);
  EXPECT_EQ(mad[15], 0x88);
  EXPECT_EQ(mad[16], 0x00);
  EXPECT_EQ(mad[17], 0x14);
  EXPECT_TRUE(is_message(mad));
  EXPECT_EQ(attribute_of(mad), Attribute::rtu);
}

TEST(CmWire, ReqLiesWhereTable106SaysIt) {
  const Mad mad = emit(request(), 0);
  EXPECT_EQ(byte(mad, 3), 0x04);
  EXPECT_EQ(byte(mad, 14), 0x1c);
  EXPECT_EQ(byte(mad, 15), 0xe4);
  EXPECT_EQ(byte(mad, 16), 0x11);
  EXPECT_EQ(byte(mad, 28), 0x80);
  EXPECT_EQ(byte(mad, 34), 0xef);
  EXPECT_EQ(byte(mad, 35), 7);
  EXPECT_EQ(byte(mad, 39), 5);
  EXPECT_EQ(byte(mad, 43), 20 << 3 | 1 << 1 | 1);
  EXPECT_EQ(byte(mad, 46), 0x56);
  EXPECT_EQ(byte(mad, 47), 21 << 3 | 6);
  EXPECT_EQ(byte(mad, 48), 0x80);
  EXPECT_EQ(byte(mad, 50), 5 << 4 | 1 << 3 | 7);
  EXPECT_EQ(byte(mad, 51), 15 << 4 | 1 << 3 | 1);
  EXPECT_EQ(byte(mad, 53), 0x01);
  EXPECT_EQ(byte(mad, 56), 1);
  EXPECT_EQ(byte(mad, 72), 17);
  EXPECT_EQ(byte(mad, 88), 0xab);
  EXPECT_EQ(byte(mad, 90), 0xe0);
  EXPECT_EQ(byte(mad, 91), 0x2a);
  EXPECT_EQ(byte(mad, 92), 0x5c);
  EXPECT_EQ(byte(mad, 93), 0x40);
  EXPECT_EQ(byte(mad, 94), 9 << 4 | 1 << 3);
  EXPECT_EQ(byte(mad, 95), 0x13 << 3);
  EXPECT_EQ(byte(mad, 97), 0x80);
  EXPECT_EQ(byte(mad, 139), 0x13 << 3);
  EXPECT_EQ(byte(mad, 140), 0x30);
  EXPECT_EQ(byte(mad, 231), static_cast<u8>(0x30 + 91));
}

TEST(CmWire, RepLiesWhereTable110SaysIt) {
  Rep rep;
  rep.remote_id = 0x05060708;
  rep.local_qpn = 0x000102;
  rep.starting_psn = 0xfffffe;
  rep.responder_resources = 3;
  rep.initiator_depth = 4;
  rep.target_ack_delay = 15;
  rep.failover_accepted = 2;
  rep.flow_control = 1;
  rep.rnr_retry_count = 5;
  rep.srq = 1;
  rep.local_ca_guid = 0x0102030405060708;
  rep.private_data[195] = 0x77;
  const Mad mad = emit(rep, 0);
  EXPECT_EQ(byte(mad, 7), 0x08);
  EXPECT_EQ(byte(mad, 14), 0x02);
  EXPECT_EQ(byte(mad, 22), 0xfe);
  EXPECT_EQ(byte(mad, 24), 3);
  EXPECT_EQ(byte(mad, 25), 4);
  EXPECT_EQ(byte(mad, 26), 15 << 3 | 2 << 1 | 1);
  EXPECT_EQ(byte(mad, 27), 5 << 5 | 1 << 4);
  EXPECT_EQ(byte(mad, 35), 0x08);
  EXPECT_EQ(byte(mad, 231), 0x77);
}

TEST(CmWire, LapOrdersItsPathOtherwiseThanReq) {
  Lap lap;
  lap.remote_qpn = 0x00aa55;
  lap.remote_response_timeout = 20;
  lap.alternate = path(3);
  const Mad mad = emit(lap, 0);
  EXPECT_EQ(byte(mad, 14), 0x55);
  EXPECT_EQ(byte(mad, 15), 20 << 3);
  EXPECT_EQ(byte(mad, 21), 0x03);
  EXPECT_EQ(byte(mad, 56), 0xab);
  EXPECT_EQ(byte(mad, 59), 0x5c);
  EXPECT_EQ(byte(mad, 60), 0x40);
  EXPECT_EQ(byte(mad, 61), 0x2a);
  EXPECT_EQ(byte(mad, 62), 9 << 4 | 1 << 3);
  EXPECT_EQ(byte(mad, 63), 0x13 << 3);
}

TEST(CmWire, ShortMessagesLieWhereTheirTablesSay) {
  Rej rej;
  rej.about = 1;
  rej.information_length = 8;
  rej.reason = 28;
  rej.private_data[0] = 0x42;
  const Mad refused = emit(rej, 0);
  EXPECT_EQ(byte(refused, 8), 1 << 6);
  EXPECT_EQ(byte(refused, 9), 8 << 1);
  EXPECT_EQ(byte(refused, 11), 28);
  EXPECT_EQ(byte(refused, 84), 0x42);
  Mra mra;
  mra.about = 2;
  mra.service_timeout = 24;
  const Mad late = emit(mra, 0);
  EXPECT_EQ(byte(late, 8), 2 << 6);
  EXPECT_EQ(byte(late, 9), 24 << 3);
  Dreq dreq;
  dreq.remote_qpn = 0x123456;
  EXPECT_EQ(byte(emit(dreq, 0), 10), 0x56);
  SidrReq asked;
  asked.pkey = 0xffff;
  asked.service_id = 0x0111'0007;
  EXPECT_EQ(byte(emit(asked, 0), 4), 0xff);
  EXPECT_EQ(byte(emit(asked, 0), 15), 0x07);
  SidrRep told;
  told.status = 2;
  told.qpn = 0x000011;
  told.service_id = 0x0111'0007;
  told.qkey = 0x01234567;
  told.private_data[0] = 0x99;
  const Mad answer = emit(told, 0);
  EXPECT_EQ(byte(answer, 4), 2);
  EXPECT_EQ(byte(answer, 10), 0x11);
  EXPECT_EQ(byte(answer, 19), 0x07);
  EXPECT_EQ(byte(answer, 23), 0x67);
  EXPECT_EQ(byte(answer, 96), 0x99);
}

// Every bit of the message is either a field's or reserved: whatever is parsed comes out again the same.
template <typename Message>
void expect_round_trip() {
  for (u32 bit = 0; bit < (mad_size - data_at) * 8; ++bit) {
    Mad mad = emit(Message{}, 0);
    mad[data_at + bit / 8] = static_cast<u8>(0x80 >> bit % 8);
    const Message once = parse<Message>(mad);
    EXPECT_EQ(parse<Message>(emit(once, 0)), once) << "bit " << bit;
    if (!(once == Message{})) {
      EXPECT_EQ(emit(once, 0), mad) << "bit " << bit;
    }
  }
}

TEST(CmWire, WhatIsParsedComesOutAgain) {
  EXPECT_EQ(parse<Req>(emit(request(), 0)), request());
  expect_round_trip<Req>();
  expect_round_trip<Mra>();
  expect_round_trip<Rej>();
  expect_round_trip<Rep>();
  expect_round_trip<Rtu>();
  expect_round_trip<Dreq>();
  expect_round_trip<Drep>();
  expect_round_trip<Lap>();
  expect_round_trip<Apr>();
  expect_round_trip<SidrReq>();
  expect_round_trip<SidrRep>();
}

TEST(CmWire, OtherClassesVersionsAndMethodsAreNoMessages) {
  const Mad good = emit(Drep{}, 0);
  for (u32 at : {0U, 1U, 2U, 3U}) {
    Mad other = good;
    other[at] ^= 0x40;
    EXPECT_FALSE(is_message(other)) << "byte " << at;
  }
}

}  // namespace
}  // namespace softib::wire::cm
