// Faults: what breaks is seen where hardware shows it, and mends.
#include "lab.h"

namespace softib::net::test {

using ipc::PortState;

class FaultsTest : public Lab {
 protected:
  void SetUp() override { bring_up(); }

  [[nodiscard]] u64 count_of(PortRef port, Cause cause) const {
    return net_->counters(port).of[static_cast<u32>(cause)];
  }
  [[nodiscard]] Loss walk(u32 host) const { return net_->walk(at_host(0), lid_of_host(host), 0, 0xffff).loss; }
};

TEST_F(FaultsTest, CutAndMend) {
  net_->cut(at_host(1));
  EXPECT_EQ(net_->port(at_host(1)).state, PortState::down);
  EXPECT_EQ(net_->port({sw1, 1}).physical, PhysicalState::polling);
  EXPECT_EQ(count_of(at_host(1), Cause::link_downed), 1U);
  EXPECT_EQ(count_of({sw1, 1}, Cause::link_downed), 1U);
  EXPECT_EQ(changed_, (std::vector<PortRef>{at_host(1), {sw1, 1}}));
  EXPECT_EQ(walk(1), Loss::link_down);
  EXPECT_EQ(net_->port(at_host(1)).lid, lid_of_host(1)) << "a LID outlives the link";
  net_->cut(at_host(1));
  EXPECT_EQ(count_of(at_host(1), Cause::link_downed), 1U);
  net_->mend(at_host(1));
  EXPECT_EQ(net_->port(at_host(1)).state, PortState::init);
  EXPECT_EQ(net_->other_end(at_host(1)), (PortRef{sw1, 1}));
}

TEST_F(FaultsTest, ACutCableStaysDownWhateverIsCommanded) {
  net_->cut({sw0, 2});
  ASSERT_TRUE(set_port({1}, 2, {{wire::port_info::physical_state, 3}}).ok());
  ASSERT_TRUE(set_port({1}, 2, {{wire::port_info::physical_state, 2}}).ok());
  EXPECT_EQ(net_->port({sw0, 2}).state, PortState::down);
}

TEST_F(FaultsTest, Limits) {
  net_->limit({sw0, 2}, fabric::Speed::sdr, fabric::Width::x1);
  EXPECT_EQ(net_->port({sw0, 2}).speed, fabric::Speed::sdr);
  EXPECT_EQ(net_->port({sw1, 2}).width, fabric::Width::x1);
  EXPECT_EQ(net_->port({sw1, 2}).state, PortState::init) << "it trained anew";
  net_->limit({sw1, 2}, std::nullopt, std::nullopt);
  EXPECT_EQ(net_->port({sw0, 2}).speed, fabric::Speed::hdr);
  EXPECT_EQ(net_->port({sw0, 2}).width, fabric::Width::x4);
}

TEST_F(FaultsTest, DroppedPacketsCountAsReceiveErrors) {
  net_->set_quality(at_host(1), {0, 0.5, 0});
  u32 lost = 0;
  for (int i = 0; i < 200; ++i) lost += !get(to_host(1), SmpAttribute::node_info).came;
  EXPECT_GT(lost, 100U) << "there and back: three in four";
  EXPECT_LT(lost, 190U);
  EXPECT_EQ(count_of(at_host(1), Cause::receive_error) + count_of({sw1, 1}, Cause::receive_error), lost);
  EXPECT_EQ(net_->quality({sw1, 1}).drop, 0.5);
}

TEST_F(FaultsTest, BitErrorsComeWithTime) {
  (void)net_->on_time(second);
  net_->set_quality({sw0, 2}, {1e-10, 0, 0});
  EXPECT_EQ(net_->on_time(second), 2 * second) << "to be counted from time to time";
  (void)net_->on_time(2 * second);
  EXPECT_EQ(count_of({sw0, 2}, Cause::symbol_error), 20U) << "200 Gb/s";
  EXPECT_EQ(count_of({sw1, 2}, Cause::symbol_error), 20U);
  EXPECT_EQ(count_of({sw0, 3}, Cause::symbol_error), 0U);
  net_->set_quality({sw0, 2}, {});
  EXPECT_EQ(net_->on_time(3 * second), ~u64{0});
}

TEST_F(FaultsTest, BitErrorsBeginWhenTheyAreAskedFor) {
  (void)net_->on_time(second);
  net_->set_quality({sw0, 2}, {1e-10, 0, 0});
  (void)net_->on_time(1000 * second);
  EXPECT_EQ(count_of({sw0, 2}, Cause::symbol_error), 0U) << "nobody knows when in between they began";
  (void)net_->on_time(1001 * second);
  EXPECT_EQ(count_of({sw0, 2}, Cause::symbol_error), 20U);
  EXPECT_EQ(count_of({sw0, 2}, Cause::link_recovery), 0U);
}

TEST_F(FaultsTest, ALinkThatLosesItsPlaceRecovers) {
  net_->set_quality({sw0, 2}, {1e-4, 0, 0});
  (void)net_->on_time(second);
  (void)net_->on_time(11 * second);
  EXPECT_EQ(count_of({sw0, 2}, Cause::symbol_error), 200'000'000U);
  EXPECT_EQ(count_of({sw0, 2}, Cause::link_recovery), 12U) << "64 x (10 x 1e-4)^4 of 2e11 symbols";
  EXPECT_EQ(count_of({sw1, 2}, Cause::link_recovery), 12U);
}

TEST_F(FaultsTest, WhatIsBrokenIsTold) {
  EXPECT_FALSE(net_->faults({sw0, 2}).cut);
  net_->limit({sw0, 2}, fabric::Speed::edr, std::nullopt);
  EXPECT_EQ(net_->faults({sw1, 2}).speed, fabric::Speed::edr);
  EXPECT_EQ(net_->faults({sw1, 2}).width, std::nullopt);
  net_->limit({sw0, 2}, fabric::Speed::edr, fabric::Width::x2);
  EXPECT_EQ(net_->faults({sw1, 2}).width, fabric::Width::x2);
  rerouted_.clear();
  net_->set_quality({sw0, 2}, {0, 0, 5});
  EXPECT_EQ(net_->faults({sw1, 2}).quality.delay_ns, 5U);
  EXPECT_FALSE(rerouted_.empty()) << "who keeps ways looks again";
  net_->cut({sw0, 2});
  EXPECT_TRUE(net_->faults({sw1, 2}).cut);
  net_->stick_counters({sw0, 3}, true);
  EXPECT_TRUE(net_->is_stuck({sw0, 3}));
  EXPECT_FALSE(net_->is_stuck({sw0, 2}));
  net_->power(sw2, false);
  EXPECT_FALSE(net_->is_on(sw2));
  EXPECT_FALSE(net_->faults({sw0, 8}).cut) << "no cable";
}

// What `ibportstate` has set, from either end.
TEST_F(FaultsTest, PortsAreEnabledAgain) {
  EXPECT_FALSE(net_->enable_ports({sw0, 2})) << "they are";
  EXPECT_FALSE(net_->enable_ports({sw0, 8})) << "no cable";
  ASSERT_TRUE(set_port({1}, 2, {{wire::port_info::physical_state, 3}}).ok());
  EXPECT_EQ(net_->port({sw0, 2}).physical, PhysicalState::disabled);
  EXPECT_TRUE(net_->enable_ports({sw1, 2}));
  EXPECT_EQ(net_->port({sw0, 2}).state, PortState::init);

  ASSERT_TRUE(set_port({1}, 2, {{wire::port_info::link_width_enabled, 1}, {wire::port_info::port_state, 1}}).ok());
  EXPECT_EQ(net_->port({sw0, 2}).width, fabric::Width::x1);
  EXPECT_TRUE(net_->enable_ports({sw1, 2}));
  EXPECT_EQ(net_->port({sw0, 2}).width, fabric::Width::x4);
  EXPECT_EQ(port_info({1}, 2).get(wire::port_info::link_width_enabled),
            port_info({1}, 2).get(wire::port_info::link_width_supported));
}

TEST_F(FaultsTest, ASwitchWithoutPowerForgets) {
  net_->count({sw1, 3}, Cause::symbol_error, 9);
  net_->power(sw1, false);
  EXPECT_EQ(net_->port(at_host(1)).state, PortState::down);
  EXPECT_EQ(net_->port({sw0, 2}).state, PortState::down);
  EXPECT_FALSE(get({1, 2}, SmpAttribute::node_info).came);
  EXPECT_EQ(walk(1), Loss::link_down);
  EXPECT_EQ(count_of({sw0, 2}, Cause::link_downed), 1U);
  net_->power(sw1, true);
  EXPECT_EQ(net_->port({sw0, 2}).state, PortState::init);
  EXPECT_EQ(net_->port({sw1, 0}).lid, 0);
  EXPECT_EQ(get({1, 2}, SmpAttribute::linear_forwarding).data[lid_of_host(0)], wire::linear_forwarding::no_port);
  EXPECT_EQ(get({1, 2}, SmpAttribute::switch_info).get(wire::switch_info::linear_top), 0U);
  EXPECT_NE(std::find(rerouted_.begin(), rerouted_.end(), sw1), rerouted_.end());
}

TEST_F(FaultsTest, AHostWithoutPowerSendsNothing) {
  net_->power(host1, false);
  EXPECT_EQ(net_->port({sw1, 1}).state, PortState::down);
  EXPECT_EQ(net_->walk(at_host(1), lid_of_host(0), 0, 0xffff).loss, Loss::source_down);
  const auto before = inbox_.size();
  net_->send(at_host(1), directed({}, {}));
  EXPECT_EQ(inbox_.size(), before);
  net_->power(host1, true);
  EXPECT_EQ(net_->port({sw1, 1}).state, PortState::init);
  EXPECT_EQ(net_->port(at_host(1)).lid, 0);
}

TEST_F(FaultsTest, PowerOffResetsWhatPmaShows) {
  net_->count({sw1, 3}, Cause::symbol_error, 9);
  net_->power(sw1, false);
  net_->power(sw1, true);
  bring_up();
  EXPECT_EQ(counters(lid_of_switch(1), 3).count(wire::port_counters::symbol_error), 0U);
  EXPECT_EQ(count_of({sw1, 3}, Cause::symbol_error), 9U) << "the emulation remembers";
}

TEST_F(FaultsTest, SwappedCables) {
  net_->swap_cables({sw1, 1}, {sw2, 1});
  EXPECT_EQ(net_->other_end({sw1, 1}), at_host(2));
  EXPECT_EQ(net_->other_end({sw2, 1}), at_host(1));
  EXPECT_EQ(net_->other_end(at_host(1)), (PortRef{sw2, 1}));
  EXPECT_EQ(net_->port({sw1, 1}).state, PortState::init);
  EXPECT_EQ(get({1, 2, 1}, SmpAttribute::node_info).get(wire::node_info::node_guid), net_->node_guid(host2));
  net_->swap_cables({sw1, 1}, {sw2, 1});
  EXPECT_EQ(net_->other_end(at_host(1)), (PortRef{sw1, 1}));
}

TEST_F(FaultsTest, ACableMovesToAFreePort) {
  net_->swap_cables({sw1, 1}, {sw2, 8});
  EXPECT_EQ(net_->other_end({sw1, 1}), std::nullopt);
  EXPECT_EQ(net_->port({sw1, 1}).state, PortState::down);
  EXPECT_EQ(net_->other_end(at_host(1)), (PortRef{sw2, 8}));
  EXPECT_EQ(net_->port({sw2, 8}).state, PortState::init);
  net_->swap_cables({sw1, 7}, {sw2, 7});
  EXPECT_EQ(net_->other_end({sw1, 7}), std::nullopt) << "nothing to swap";
  net_->swap_cables({sw0, 2}, {sw1, 2});
  EXPECT_EQ(net_->other_end({sw0, 2}), (PortRef{sw1, 2})) << "both ends of one cable";
}

TEST_F(FaultsTest, FaultsOfAPortWithoutCable) {
  net_->cut({sw0, 8});
  net_->mend({sw0, 8});
  net_->limit({sw0, 8}, fabric::Speed::sdr, std::nullopt);
  net_->set_quality({sw0, 8}, {1, 1, 1});
  EXPECT_EQ(net_->quality({sw0, 8}).drop, 0);
  EXPECT_TRUE(changed_.empty());
}

TEST_F(FaultsTest, AnObserverMaySendFromWithin) {
  class Echo : public Observer {
   public:
    void received(PortRef at, const Packet& packet) override {
      ++got;
      if (got < 100'000) network->send(at, packet);  // to itself, again and again
    }
    void port_changed(PortRef) override {}
    void routes_changed(u32) override {}
    Network* network = nullptr;
    u32 got = 0;
  } echo;
  const auto network = Network::create(triangle(), echo);
  echo.network = network.get();
  network->send(at_host(0), directed({}, {Method::get, SmpAttribute::sm_info, 0, {}, 0}));
  EXPECT_EQ(echo.got, 100'000U) << "no stack grows by it";
}

}  // namespace softib::net::test
