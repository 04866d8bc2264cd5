// Performance management: counters are exact, saturate, and are reset one by one.
#include "lab.h"
#include "wire/class_port_info.h"

namespace softib::net::test {

namespace plain = wire::port_counters;
namespace extended = wire::port_counters_extended;

class CountersTest : public Lab {
 protected:
  static constexpr u64 mad_words = 72;

  void SetUp() override { bring_up(); }

  PerfAnswer set_counters(u16 dlid, u8 port, PerfAttribute attribute, const std::vector<Change>& fields) {
    PerfData data{};
    wire::set(data, wire::counters::port_select, port);
    for (const Change& change : fields) wire::set(data, change.field, change.value);
    return perf(dlid, Method::set, attribute, data);
  }
  PerfAnswer extended_counters(u16 dlid, u8 port) {
    return counters(dlid, port, PerfAttribute::port_counters_extended);
  }

  [[nodiscard]] std::vector<Hop> hops_to_host1() const {
    return net_->walk(at_host(0), lid_of_host(1), 0, 0xffff).hops;
  }
};

TEST_F(CountersTest, EachHopOfAMadCountsOnBothSides) {
  const Network::Counters before = net_->counters({sw0, 2});
  ASSERT_TRUE(get({1, 2, 1}, SmpAttribute::node_info).ok());
  const Network::Counters after = net_->counters({sw0, 2});
  EXPECT_EQ(after.xmit_packets - before.xmit_packets, 1U);
  EXPECT_EQ(after.receive_packets - before.receive_packets, 1U);
  EXPECT_EQ(after.xmit_words - before.xmit_words, mad_words);
  EXPECT_EQ(after.unicast_xmit - before.unicast_xmit, 1U);
  EXPECT_EQ(after.multicast_xmit, 0U);
}

TEST_F(CountersTest, TrafficCountsAlongTheWay) {
  const u64 before = net_->counters({sw1, 1}).xmit_words;
  net_->count(hops_to_host1(), {10, 1000, false, 3});
  net_->count(hops_to_host1(), {5, 500, true, 3});
  EXPECT_EQ(net_->counters({sw1, 1}).xmit_words - before, 1500U);
  EXPECT_EQ(net_->counters({sw1, 1}).multicast_xmit, 5U);
  EXPECT_EQ(net_->counters(at_host(1)).multicast_receive, 5U);
  EXPECT_EQ(counters(lid_of_switch(1), 1, PerfAttribute::xmit_data_sl).count(wire::data_sl::words(3)), 1500U);
  EXPECT_EQ(counters(lid_of_switch(1), 1, PerfAttribute::xmit_data_sl).count(wire::data_sl::words(4)), 0U);
}

TEST_F(CountersTest, PmaShowsWhatWasCounted) {
  net_->count(hops_to_host1(), {10, 1000, false, 0});
  const Network::Counters real = net_->counters({sw1, 3});
  const PerfAnswer small = counters(lid_of_switch(1), 3);
  ASSERT_TRUE(small.ok());
  EXPECT_EQ(small.count(plain::xmit_packets), real.xmit_packets);
  EXPECT_EQ(small.count(plain::receive_data), real.receive_words);
  EXPECT_EQ(small.count(wire::counters::port_select), 3U);
  EXPECT_EQ(extended_counters(lid_of_switch(1), 3).count(extended::unicast_receive_packets), real.unicast_receive);
}

TEST_F(CountersTest, ErrorsLieInTheirFields) {
  const std::pair<Cause, wire::Field> rows[] = {
      {Cause::symbol_error, plain::symbol_error},
      {Cause::link_recovery, plain::link_error_recovery},
      {Cause::receive_error, plain::receive_errors},
      {Cause::remote_physical, plain::receive_remote_physical_errors},
      {Cause::switch_relay, plain::receive_switch_relay_errors},
      {Cause::xmit_discard, plain::xmit_discards},
      {Cause::xmit_constraint, plain::xmit_constraint_errors},
      {Cause::receive_constraint, plain::receive_constraint_errors},
      {Cause::local_integrity, plain::local_link_integrity_errors},
      {Cause::buffer_overrun, plain::excessive_buffer_overrun_errors},
      {Cause::vl15_dropped, plain::vl15_dropped},
      {Cause::xmit_wait, plain::xmit_wait},
  };
  u64 times = 0;
  for (const auto& [cause, field] : rows) {
    net_->count({sw1, 5}, cause, ++times);
    EXPECT_EQ(counters(lid_of_switch(1), 5).count(field), times);
  }
}

TEST_F(CountersTest, SmallOnesSaturateAndLargeOnesDont) {
  net_->count({sw1, 5}, Cause::link_recovery, 1000);
  net_->count({sw1, 5}, Cause::symbol_error, 1'000'000);
  net_->count({sw1, 5}, Cause::local_integrity, 20);
  const Hop hop{{sw1, 5}, {sw1, 6}};
  net_->count({&hop, 1}, {u64{1} << 33, u64{1} << 40, false, 0});
  const PerfAnswer small = counters(lid_of_switch(1), 5);
  EXPECT_EQ(small.count(plain::link_error_recovery), 0xffU);
  EXPECT_EQ(small.count(plain::symbol_error), 0xffffU);
  EXPECT_EQ(small.count(plain::local_link_integrity_errors), 0xfU);
  EXPECT_EQ(small.count(plain::xmit_data), 0xffff'ffffU);
  EXPECT_EQ(small.count(plain::xmit_packets), 0xffff'ffffU);
  const PerfAnswer large = extended_counters(lid_of_switch(1), 5);
  EXPECT_EQ(large.count(extended::xmit_data), u64{1} << 40);
  EXPECT_EQ(large.count(extended::symbol_error), 1'000'000U);
}

TEST_F(CountersTest, SelectedOnesAreReset) {
  net_->count({sw1, 5}, Cause::symbol_error, 5);
  net_->count({sw1, 5}, Cause::xmit_discard, 6);
  net_->count({sw1, 5}, Cause::xmit_wait, 7);
  const PerfAnswer reset =
      set_counters(lid_of_switch(1), 5, PerfAttribute::port_counters, {{wire::counters::select, 1}});
  ASSERT_TRUE(reset.ok());
  EXPECT_EQ(reset.count(plain::symbol_error), 0U);
  EXPECT_EQ(reset.count(plain::xmit_discards), 6U);
  EXPECT_EQ(reset.count(plain::xmit_wait), 7U);
  EXPECT_EQ(extended_counters(lid_of_switch(1), 5).count(extended::symbol_error), 5U) << "a counter of its own";
  (void)set_counters(lid_of_switch(1), 5, PerfAttribute::port_counters, {{plain::select2, 1}});
  EXPECT_EQ(counters(lid_of_switch(1), 5).count(plain::xmit_wait), 0U);
  net_->count({sw1, 5}, Cause::symbol_error, 2);
  EXPECT_EQ(counters(lid_of_switch(1), 5).count(plain::symbol_error), 2U);
  EXPECT_EQ(net_->counters({sw1, 5}).of[0], 7U);
}

TEST_F(CountersTest, ExtendedOnesAreResetByTheirOwnSelect) {
  net_->count({sw1, 5}, Cause::symbol_error, 5);
  (void)set_counters(lid_of_switch(1), 5, PerfAttribute::port_counters_extended, {{wire::counters::select, 0xff}});
  EXPECT_EQ(extended_counters(lid_of_switch(1), 5).count(extended::symbol_error), 5U);
  (void)set_counters(lid_of_switch(1), 5, PerfAttribute::port_counters_extended, {{extended::select2, 1}});
  EXPECT_EQ(extended_counters(lid_of_switch(1), 5).count(extended::symbol_error), 0U);
  EXPECT_EQ(counters(lid_of_switch(1), 5).count(plain::symbol_error), 5U);
}

TEST_F(CountersTest, SetWritesTheValueGiven) {
  (void)set_counters(lid_of_switch(1), 5, PerfAttribute::port_counters,
                     {{wire::counters::select, 1}, {plain::symbol_error, 100}});
  net_->count({sw1, 5}, Cause::symbol_error, 1);
  EXPECT_EQ(counters(lid_of_switch(1), 5).count(plain::symbol_error), 101U);
}

TEST_F(CountersTest, AllPorts) {
  net_->count({sw1, 5}, Cause::symbol_error, 5);
  net_->count({sw1, 6}, Cause::symbol_error, 6);
  EXPECT_EQ(counters(lid_of_switch(1), wire::all_ports).count(plain::symbol_error), 11U);
  (void)set_counters(lid_of_switch(1), wire::all_ports, PerfAttribute::port_counters,
                     {{wire::counters::select, 0xffff}});
  EXPECT_EQ(counters(lid_of_switch(1), 5).count(plain::symbol_error), 0U);
  EXPECT_EQ(counters(lid_of_switch(1), 6).count(plain::symbol_error), 0U);
}

TEST_F(CountersTest, PortsThatArentThere) {
  EXPECT_EQ(counters(lid_of_switch(1), 9).status, bad_value);
  EXPECT_EQ(counters(lid_of_host(1), 0).status, bad_value);
  EXPECT_EQ(counters(lid_of_host(1), 2).status, bad_value);
  EXPECT_TRUE(counters(lid_of_switch(1), 0).ok());
}

TEST_F(CountersTest, Details) {
  net_->count({sw1, 5}, Cause::xmit_discard, 4);
  net_->count({sw1, 5}, Cause::switch_relay, 3);
  const PerfAnswer discards = counters(lid_of_switch(1), 5, PerfAttribute::xmit_discard_details);
  EXPECT_EQ(discards.count(wire::xmit_discard_details::inactive), 4U);
  const PerfAnswer errors = counters(lid_of_switch(1), 5, PerfAttribute::receive_error_details);
  EXPECT_EQ(errors.count(wire::receive_error_details::dlid_mapping), 3U);
}

TEST_F(CountersTest, ClassPortInfoTellsWhatThereIs) {
  const PerfAnswer answer = perf(lid_of_host(1), Method::get, PerfAttribute::class_port_info, {});
  ASSERT_TRUE(answer.ok());
  EXPECT_EQ(answer.count(wire::class_port_info::capability_mask),
            wire::perf_cap::all_port_select | wire::perf_cap::extended_width | wire::perf_cap::xmit_wait);
  EXPECT_EQ(answer.count(wire::class_port_info::capability_mask2), wire::perf_cap::more_extended_counters);
  EXPECT_EQ(perf(lid_of_host(1), Method::get, static_cast<PerfAttribute>(0x99), {}).status, bad_attribute);
}

TEST_F(CountersTest, ASwitchSaysWhichClassesItHasNot) {
  for (const u8 unknown : {0x05, 0x06, 0x07, 0x09, 0x21, 0x32}) {
    wire::Packet packet = smp(static_cast<wire::MgmtClass>(unknown), {Method::get, static_cast<SmpAttribute>(0x17)});
    packet.dlid = lid_of_switch(1);
    packet.source_qp = packet.destination_qp = 1;
    packet.qkey = wire::gsi_qkey;
    const Answer answer = ask(at_host(0), packet);
    EXPECT_EQ(answer.status, bad_version) << +unknown;
    wire::set(packet.mad, wire::header::method, static_cast<u8>(Method::get_resp));
    net_->send(at_host(0), packet);  // a response to nothing is no question
  }
}

TEST_F(CountersTest, StuckOnesStandStill) {
  net_->count({sw1, 5}, Cause::symbol_error, 5);
  net_->stick_counters({sw1, 5}, true);
  net_->count({sw1, 5}, Cause::symbol_error, 5);
  EXPECT_EQ(counters(lid_of_switch(1), 5).count(plain::symbol_error), 5U);
  (void)set_counters(lid_of_switch(1), 5, PerfAttribute::port_counters, {{wire::counters::select, 1}});
  EXPECT_EQ(counters(lid_of_switch(1), 5).count(plain::symbol_error), 5U) << "not even by a reset";
  EXPECT_EQ(net_->counters({sw1, 5}).of[0], 10U);
  net_->stick_counters({sw1, 5}, false);
  net_->count({sw1, 5}, Cause::symbol_error, 1);
  EXPECT_EQ(counters(lid_of_switch(1), 5).count(plain::symbol_error), 6U);
}

TEST_F(CountersTest, Sampling) {
  namespace control = wire::samples_control;
  (void)net_->on_time(second);
  const std::vector<Change> request = {{control::start, 1000},
                                       {control::interval, 250'000'000},
                                       {control::tag, 0x77},
                                       {control::select(0), 1},
                                       {control::select(1), 4}};
  ASSERT_TRUE(set_counters(lid_of_switch(1), 1, PerfAttribute::samples_control, request).ok());
  EXPECT_EQ(set_counters(lid_of_switch(1), 1, PerfAttribute::samples_control, request).status,
            static_cast<u16>(MadStatus::busy));
  const u64 start = net_->on_time(second);
  EXPECT_EQ(start, second + 4000);
  const u64 end = net_->on_time(start);
  EXPECT_EQ(end, start + second);
  PerfAnswer result = perf(lid_of_switch(1), Method::get, PerfAttribute::samples_result, {});
  EXPECT_EQ(result.count(wire::samples_result::status), 2U);
  net_->count(hops_to_host1(), {10, 1000, false, 0});
  (void)net_->on_time(end);
  result = perf(lid_of_switch(1), Method::get, PerfAttribute::samples_result, {});
  EXPECT_EQ(result.count(wire::samples_result::status), 0U);
  EXPECT_EQ(result.count(wire::samples_result::tag), 0x77U);
  EXPECT_EQ(result.count(wire::samples_result::counter(0)), 1000U);
  EXPECT_EQ(result.count(wire::samples_result::counter(1)), 0U);
}

}  // namespace softib::net::test
