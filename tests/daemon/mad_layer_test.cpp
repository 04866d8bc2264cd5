// Agents, requests and responses on a port's queue pairs 0 and 1, without sockets and with a clock made of numbers.
#include "daemon/mad/layer.h"

#include <gtest/gtest.h>

#include <vector>

namespace softib::daemon {
namespace {

namespace header = wire::header;
constexpr u64 millisecond = 1'000'000;
constexpr u32 port = 3;

class MadLayerTest : public ::testing::Test, public MadLayer::Outside {
 protected:
  struct Delivery {
    u32 file;
    ipc::UmadFrame frame;
    std::vector<u8> mad;
  };

  void send(u32 from, const wire::Packet& packet) override {
    EXPECT_EQ(from, port);
    sent.push_back(packet);
    if (answer_at_once) {
      EXPECT_TRUE(layer.received(port, response_to(packet), 0));
    }
  }
  void deliver(u32 file, const ipc::UmadFrame& frame, std::span<const u8> mad) override {
    delivered.push_back({file, frame, {mad.begin(), mad.end()}});
  }
  u16 lid(u32) const override { return 8; }
  u16 pkey(u32, u16 index) const override { return index == 1 ? 0x8001 : 0xffff; }
  u16 pkey_index(u32, u16 pkey) const override { return pkey == 0x8001 ? 1 : 0; }
  wire::GidBytes gid(u32, u8) const override { return {0xfe, 0x80}; }

  static Registration performance() {
    Registration wanted;
    wanted.mgmt_class = 4;
    wanted.class_version = 1;
    wanted.methods.set(1);
    return wanted;
  }
  static std::vector<u8> mad(u8 mgmt_class, wire::Method method, u64 transaction) {
    std::vector<u8> bytes(wire::mad_size);
    set(bytes, header::base_version, 1);
    set(bytes, header::mgmt_class, mgmt_class);
    set(bytes, header::class_version, 1);
    set(bytes, header::method, static_cast<u64>(method));
    set(bytes, header::transaction, transaction);
    return bytes;
  }
  static wire::Packet response_to(const wire::Packet& request) {
    wire::Packet packet = request;
    std::swap(packet.slid, packet.dlid);
    std::swap(packet.source_qp, packet.destination_qp);
    wire::set(packet.mad, header::method, get(packet.mad, header::method) | wire::response_bit);
    return packet;
  }
  static wire::Packet packet_with(const std::vector<u8>& bytes) {
    wire::Packet packet;
    packet.slid = 5;
    packet.dlid = 8;
    packet.source_qp = packet.destination_qp = 1;
    std::copy_n(bytes.begin(), packet.mad.size(), packet.mad.begin());
    return packet;
  }
  static ipc::UmadFrame frame(u32 agent, u32 timeout_ms = 100, u32 retries = 0) {
    ipc::UmadFrame frame{};
    frame.agent = agent;
    frame.timeout_ms = timeout_ms;
    frame.retries = retries;
    frame.lid = 5;
    frame.qpn = 1;
    return frame;
  }

  MadLayer layer{*this};
  std::vector<wire::Packet> sent;
  std::vector<Delivery> delivered;
  bool answer_at_once = false;
};

TEST_F(MadLayerTest, AResponseFindsTheAgentThatAsked) {
  const u32 first = layer.open(port), second = layer.open(port);
  ASSERT_EQ(*layer.add_agent(first, {}), 0U);
  ASSERT_EQ(*layer.add_agent(second, {}), 0U);
  const auto request = mad(4, wire::Method::get, 77);
  ASSERT_TRUE(layer.write(second, frame(0), request, 0));
  ASSERT_TRUE(layer.write(first, frame(0), request, 0));
  ASSERT_EQ(sent.size(), 2U);
  EXPECT_EQ(sent[0].slid, 8);
  EXPECT_EQ(sent[0].dlid, 5);
  EXPECT_TRUE(layer.received(port, response_to(sent[0]), 1));
  EXPECT_TRUE(layer.received(port, response_to(sent[1]), 1));
  ASSERT_EQ(delivered.size(), 2U);
  EXPECT_EQ(delivered[0].file, second);
  EXPECT_EQ(delivered[1].file, first);
  EXPECT_EQ(get(delivered[0].mad, header::transaction) & 0xffffffff, 77U);
  EXPECT_EQ(delivered[0].frame.lid, 5);
  EXPECT_EQ(delivered[0].frame.length, wire::mad_size);
  EXPECT_TRUE(layer.received(port, response_to(sent[0]), 2)) << "a second one is the agent's, and dropped";
  EXPECT_EQ(delivered.size(), 2U);
}

TEST_F(MadLayerTest, TheResponseMayComeWithinTheCall) {
  answer_at_once = true;
  const u32 file = layer.open(port);
  ASSERT_TRUE(layer.add_agent(file, {}));
  ASSERT_TRUE(layer.write(file, frame(0), mad(4, wire::Method::get, 1), 0));
  EXPECT_EQ(delivered.size(), 1U);
  EXPECT_EQ(layer.on_time(1000 * millisecond), ~0ULL);
}

TEST_F(MadLayerTest, RequestsAreRepeatedAndThenReported) {
  const u32 file = layer.open(port);
  ASSERT_TRUE(layer.add_agent(file, {}));
  ASSERT_TRUE(layer.write(file, frame(0, 100, 2), mad(4, wire::Method::get, 9), 0));
  EXPECT_EQ(layer.on_time(99 * millisecond), 100 * millisecond);
  EXPECT_EQ(layer.on_time(100 * millisecond), 200 * millisecond);
  EXPECT_EQ(layer.on_time(200 * millisecond), 300 * millisecond);
  EXPECT_EQ(sent.size(), 3U);
  EXPECT_TRUE(delivered.empty());
  EXPECT_EQ(layer.on_time(300 * millisecond), ~0ULL);
  EXPECT_EQ(sent.size(), 3U);
  ASSERT_EQ(delivered.size(), 1U);
  EXPECT_EQ(delivered[0].frame.status, static_cast<u32>(ETIMEDOUT));
  EXPECT_EQ(delivered[0].mad.size(), 24U);
  EXPECT_EQ(get(delivered[0].mad, header::transaction) & 0xffffffff, 9U);
}

TEST_F(MadLayerTest, WithoutATimeoutNoResponseIsTaken) {
  const u32 file = layer.open(port);
  ASSERT_TRUE(layer.add_agent(file, {}));
  ASSERT_TRUE(layer.write(file, frame(0, 0), mad(4, wire::Method::get, 9), 0));
  layer.received(port, response_to(sent[0]), 1);
  EXPECT_TRUE(delivered.empty());
}

TEST_F(MadLayerTest, UnsolicitedMadsGoToWhoRegisteredTheMethod) {
  const u32 file = layer.open(port);
  ASSERT_TRUE(layer.add_agent(file, {}));
  ASSERT_EQ(*layer.add_agent(file, performance()), 1U);
  EXPECT_TRUE(layer.received(port, packet_with(mad(4, wire::Method::get, 1)), 0));
  ASSERT_EQ(delivered.size(), 1U);
  EXPECT_EQ(delivered[0].frame.agent, 1U);
  EXPECT_TRUE(sent.empty());
  EXPECT_FALSE(layer.received(port, packet_with(mad(4, wire::Method::set, 1)), 0));
  ASSERT_EQ(sent.size(), 1U) << "a request that nobody wants is answered";
  EXPECT_EQ(get(sent[0].mad, header::status), 0xcU);
  EXPECT_EQ(get(sent[0].mad, header::method), 0x81U);
  EXPECT_EQ(sent[0].dlid, 5);
}

TEST_F(MadLayerTest, VendorsAreToldApartByTheirOui) {
  const u32 file = layer.open(port);
  Registration wanted = performance();
  wanted.mgmt_class = 0x32;
  EXPECT_EQ(layer.add_agent(file, wanted).error(), Errno{EINVAL}) << "no OUI";
  wanted.oui = {0, 0x14, 5};
  ASSERT_TRUE(layer.add_agent(file, wanted));
  auto bytes = mad(0x32, wire::Method::get, 1);
  EXPECT_FALSE(layer.received(port, packet_with(bytes), 0));
  std::copy(wanted.oui.begin(), wanted.oui.end(), bytes.begin() + 37);
  EXPECT_TRUE(layer.received(port, packet_with(bytes), 0));
}

TEST_F(MadLayerTest, RegistrationsThatTheKernelRefuses) {
  const u32 file = layer.open(port);
  auto refused = [&](auto change) {
    Registration wanted = performance();
    change(wanted);
    auto added = layer.add_agent(file, wanted);
    return !added && added.error() == Errno{EINVAL};
  };
  EXPECT_TRUE(refused([](Registration& r) { r.qpn = 2; }));
  EXPECT_TRUE(refused([](Registration& r) { r.qpn = 0; }));
  EXPECT_TRUE(refused([](Registration& r) { r.mgmt_class = 1; }));
  EXPECT_TRUE(refused([](Registration& r) { r.mgmt_class = 0x60; }));
  EXPECT_TRUE(refused([](Registration& r) { r.class_version = 8; }));
  EXPECT_TRUE(refused([](Registration& r) { r.rmpp_version = 1; }));
  EXPECT_TRUE(layer.add_agent(file, performance()));
  EXPECT_TRUE(refused([](Registration&) {})) << "the method is taken";
  const u32 elsewhere = layer.open(port + 1);
  EXPECT_TRUE(layer.add_agent(elsewhere, performance())) << "another port's are its own";
}

TEST_F(MadLayerTest, AFileHasSoManyAgents) {
  const u32 file = layer.open(port);
  for (u32 i = 0; i < agents_per_file; ++i) ASSERT_EQ(*layer.add_agent(file, {}), i);
  EXPECT_EQ(layer.add_agent(file, {}).error(), Errno{ENOMEM});
  EXPECT_TRUE(layer.remove_agent(file, 7));
  EXPECT_FALSE(layer.remove_agent(file, 7));
  EXPECT_EQ(*layer.add_agent(file, {}), 7U);
}

TEST_F(MadLayerTest, WhatIsClosedIsForgotten) {
  const u32 file = layer.open(port);
  ASSERT_TRUE(layer.add_agent(file, performance()));
  ASSERT_TRUE(layer.write(file, frame(0), mad(4, wire::Method::get, 1), 0));
  layer.close(file);
  EXPECT_EQ(layer.on_time(1000 * millisecond), ~0ULL);
  EXPECT_FALSE(layer.received(port, response_to(sent[0]), 1));
  EXPECT_FALSE(layer.write(file, frame(0), mad(4, wire::Method::get, 2), 0));
  EXPECT_TRUE(delivered.empty());
}

TEST_F(MadLayerTest, WritesThatAreRefused) {
  const u32 file = layer.open(port);
  ASSERT_TRUE(layer.add_agent(file, {}));
  const auto request = mad(4, wire::Method::get, 5);
  EXPECT_FALSE(layer.write(file, frame(1), request, 0));
  EXPECT_FALSE(layer.write(file, frame(40), request, 0));
  EXPECT_FALSE(layer.write(file, frame(0), std::span(request).first(35), 0));
  EXPECT_TRUE(layer.write(file, frame(0), request, 0));
  EXPECT_FALSE(layer.write(file, frame(0), request, 0)) << "the same transaction again";
}

}  // namespace
}  // namespace softib::daemon
