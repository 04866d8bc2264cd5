// MADs on slow links: they take their time, there and back, and keep the order of it.
#include "lab.h"

namespace softib::net::test {

constexpr u64 ms = 1'000'000;

// sw0 - sw1 takes 3 ms, sw0 - sw2 5 ms.
struct DelayTest : Lab {
  DelayTest() {
    bring_up();
    advance(1000 * ms);
    net_->set_quality({sw0, 2}, {0, 0, 3 * ms});
    net_->set_quality({sw0, 3}, {0, 0, 5 * ms});
  }

  u64 advance(u64 to) {
    now_ = to;
    return net_->on_time(to);
  }

  // Numbers of the answers that have come to host0 since the last look.
  std::vector<u64> answers() {
    std::vector<u64> numbers;
    for (const auto& [at, packet] : inbox_)
      if (at == at_host(0) && wire::is_response(packet.mad))
        numbers.push_back(wire::get(packet.mad, wire::header::transaction));
    inbox_.clear();
    return numbers;
  }

  u64 send(const wire::Packet& packet) {
    net_->send(at_host(0), packet);
    return wire::get(packet.mad, wire::header::transaction);
  }

  u64 now_ = 0;
};

TEST_F(DelayTest, ARequestAndItsAnswerEachTakeTheTimeOfTheLink) {
  const u64 number = send(by_lid(lid_of_switch(1), {}));
  EXPECT_TRUE(answers().empty());
  EXPECT_EQ(advance(1001 * ms), 1004 * ms) << "the time that there is when it is asked for next";
  EXPECT_EQ(advance(1004 * ms), 1007 * ms);
  EXPECT_TRUE(answers().empty());
  EXPECT_EQ(advance(1007 * ms), ~u64{0});
  EXPECT_EQ(answers(), std::vector{number});
}

TEST_F(DelayTest, SoDoDirectedRoutesAndPerformanceManagement) {
  const u64 directed_one = send(directed({1, 2}, {}));
  wire::Packet packet = smp(MgmtClass::performance, {Method::get, static_cast<SmpAttribute>(0x12), 0, {}, 0});
  packet.dlid = lid_of_switch(1);
  packet.source_qp = packet.destination_qp = 1;
  wire::set(std::span(packet.mad).subspan(wire::perf::data_at), wire::counters::port_select, 1);
  const u64 perf_one = send(packet);
  advance(1000 * ms);
  advance(1003 * ms);
  EXPECT_TRUE(answers().empty());
  advance(1006 * ms);
  EXPECT_EQ(answers(), (std::vector{directed_one, perf_one}));
}

TEST_F(DelayTest, ArrivalsAreInTheOrderOfTheirTimesWhenTheyComeAtOnce) {
  const u64 slow = send(by_lid(lid_of_switch(2), {}));
  const u64 fast = send(by_lid(lid_of_switch(1), {}));
  const u64 here = send(by_lid(lid_of_switch(0), {}));
  advance(1000 * ms);
  for (u64 at = 1001 * ms; at <= 1010 * ms; at += ms) advance(at);
  EXPECT_EQ(answers(), (std::vector{here, fast, slow}));
}

TEST_F(DelayTest, LinksInARowAddUp) {
  const wire::Packet packet = by_lid(lid_of_host(2), {});
  net_->set_quality({sw2, 1}, {0, 0, 2 * ms});
  const u64 number = send(packet);
  advance(1000 * ms);
  EXPECT_EQ(advance(1007 * ms), 1014 * ms);
  advance(1014 * ms);
  EXPECT_EQ(answers(), std::vector{number});
}

TEST_F(DelayTest, WhoHasLostItsPowerMeanwhileGetsNothing) {
  send(by_lid(lid_of_host(1), {}));
  advance(1000 * ms);
  net_->power(host1, false);
  for (u64 at = 1001 * ms; at <= 1020 * ms; at += ms) advance(at);
  EXPECT_TRUE(answers().empty());
}

TEST_F(DelayTest, AfterItsRemovalNothingIsLate) {
  net_->set_quality({sw0, 2}, {});
  EXPECT_TRUE(ask(at_host(0), by_lid(lid_of_switch(1), {})).ok());
}

// host0 to the group: over sw0 - sw1 to host1, over sw0 - sw2 to host2.
struct MulticastMadTest : Lab {
  static constexpr u16 group = 0xc000;

  MulticastMadTest() {
    bring_up();
    for (const u32 i : {0U, 1U, 2U}) {
      Data masks{};
      wire::set(masks, wire::multicast_forwarding::mask(0), i == 0 ? 0b1110 : i == 1 ? 0b0110 : 0b1010);
      EXPECT_TRUE(set(to_switch(i), SmpAttribute::multicast_forwarding, 0, masks).ok());
    }
    (void)net_->on_time(second);
    inbox_.clear();
  }

  void send_to_group() {
    wire::Packet packet = smp(static_cast<MgmtClass>(0x32), {});
    packet.dlid = group;
    packet.source_qp = packet.destination_qp = 1;
    net_->send(at_host(0), packet);
  }
  [[nodiscard]] std::vector<PortRef> reached() {
    std::vector<PortRef> ends;
    for (const auto& [at, packet] : inbox_)
      if (packet.dlid == group) ends.push_back(at);
    inbox_.clear();
    return ends;
  }
};

TEST_F(MulticastMadTest, EachLinkOfTheTreeCarriesItOnce) {
  const u64 before = net_->counters(at_host(0)).multicast_xmit;
  send_to_group();
  EXPECT_EQ(reached(), (std::vector{at_host(1), at_host(2)}));
  EXPECT_EQ(net_->counters(at_host(0)).multicast_xmit - before, 1U);
  EXPECT_EQ(net_->counters({sw0, 1}).multicast_receive, 1U);
}

TEST_F(MulticastMadTest, ALossIsOneOfThoseBehindTheLink) {
  net_->set_quality({sw0, 2}, {0, 1.0, 0});
  send_to_group();
  EXPECT_EQ(reached(), std::vector{at_host(2)});
  EXPECT_EQ(net_->counters({sw1, 2}).of[static_cast<u32>(Cause::receive_error)], 1U);
  EXPECT_EQ(net_->counters({sw1, 1}).multicast_xmit, 0U) << "it never came that far";
  net_->set_quality({sw0, 1}, {0, 1.0, 0});
  send_to_group();
  EXPECT_TRUE(reached().empty());
  EXPECT_EQ(net_->counters({sw0, 1}).of[static_cast<u32>(Cause::receive_error)], 1U);
}

TEST_F(MulticastMadTest, CopiesArriveWhenTheirWayAllows) {
  net_->set_quality({sw0, 2}, {0, 0, 3 * ms});
  send_to_group();
  EXPECT_EQ(reached(), std::vector{at_host(2)});
  (void)net_->on_time(second);
  (void)net_->on_time(second + 3 * ms);
  EXPECT_EQ(reached(), std::vector{at_host(1)});
}

}  // namespace softib::net::test
