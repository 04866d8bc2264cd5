// Faults on demand: who may ask, what is refused, and what programs and tools see of each.
#include <gmock/gmock.h>
#include <infiniband/verbs.h>
#include <poll.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>
#include <set>

#include "control_fixture.h"
#include "wire/smp_attributes.h"

namespace softib::daemon {
namespace {

using ipc::FaultKind;
using ipc::FaultPlace;
using ipc::PortState;
using nlohmann::json;
using Request = ipc::Fault::Request;

constexpr u64 ms = 1'000'000;
constexpr FaultPlace host0{0, 0, 0, 1};
constexpr FaultPlace host1{0, 1, 0, 1};
constexpr FaultPlace all_of_host1{0, 1, 0, 0};
constexpr FaultPlace port1_of_switch{1, 0, 0, 1};
constexpr FaultPlace port2_of_switch{1, 0, 0, 2};
constexpr FaultPlace the_switch{1, 0, 0, 0};

Request request(FaultKind kind, FaultPlace a = {}, FaultPlace b = {}) {
  Request wanted{};
  wanted.kind = kind;
  wanted.a = a;
  wanted.b = b;
  return wanted;
}

class FaultsTest : public ControlTest {
 protected:
  explicit FaultsTest(ipc::LinkLayer layer = ipc::LinkLayer::infiniband) : ControlTest(layer) { tool_ = make_tool(); }

  u32 make_tool() {
    const u32 peer = control_->connect(::getpid());
    ipc::Attach::Request attach{};
    attach.version = ipc::interface_version;
    attach.size_of_qp = sizeof(ipc::Qp);
    attach.is_tool = 1;
    EXPECT_TRUE(call<ipc::Attach>(peer, 0, attach));
    return peer;
  }

  Result<ipc::Fault::Reply> ask(const Request& wanted) { return call<ipc::Fault>(tool_, 0, wanted); }
  int refusal(const Request& wanted) {
    auto reply = ask(wanted);
    return reply ? 0 : to_int(reply.error());
  }
  // It happens, and what it sets going is done.
  ipc::Fault::Reply break_it(const Request& wanted) {
    auto reply = ask(wanted);
    EXPECT_TRUE(reply) << "errno " << (reply ? 0 : to_int(reply.error()));
    pass(0);
    return reply.value_or(ipc::Fault::Reply{});
  }
  void pass(u64 time) {
    now_ += time;
    control_->advance(now_);
    while (control_->wants_advance()) control_->advance(++now_);
  }

  // A switch doesn't send the same trap again within a SubnetTimeOut of about a second.
  void let_traps_pass() { pass(2000 * ms); }

  [[nodiscard]] PortState state(u32 host) { return segment().ports[host + 1].state.load(); }
  [[nodiscard]] std::string faults() const {
    std::string text;
    const json list = control_->faults()->report().faults();
    for (const json& fault : list)
      text += fault["what"].get<std::string>() + ": " + fault["fault"].get<std::string>() + "\n";
    return text;
  }
  static std::vector<u32> events(const Fd& pipe) {
    std::vector<u32> types;
    for (pollfd wait{pipe.get(), POLLIN, 0}; ::poll(&wait, 1, 0) == 1;) {
      ipc::AsyncRecord record{};
      if (::read(pipe.get(), &record, sizeof record) != static_cast<ssize_t>(sizeof record)) break;
      types.push_back(record.event_type);
    }
    return types;
  }
  // The subnet manager's Set of PortInfo, by a switch's own manager.
  void disable(FaultPlace place) {
    net::Network& network = control_->plane()->network();
    wire::Packet packet;
    wire::set(packet.mad, wire::header::base_version, 1);
    wire::set(packet.mad, wire::header::mgmt_class, static_cast<u8>(wire::MgmtClass::subn_directed));
    wire::set(packet.mad, wire::header::class_version, 1);
    wire::set(packet.mad, wire::header::method, static_cast<u8>(wire::Method::set));
    wire::set(packet.mad, wire::header::attribute, static_cast<u16>(wire::SmpAttribute::port_info));
    wire::set(packet.mad, wire::header::modifier, place.port);
    wire::set(packet.mad, wire::smp::dr_slid, wire::permissive_lid);
    wire::set(packet.mad, wire::smp::dr_dlid, wire::permissive_lid);
    const std::span<u8> data = std::span(packet.mad).subspan(wire::smp::data_at, wire::smp::data_size);
    wire::set(data, wire::port_info::physical_state, static_cast<u8>(net::PhysicalState::disabled));
    packet.slid = packet.dlid = wire::permissive_lid;
    network.send({network.switch_node(place.node), 0}, packet);
    pass(0);
  }
  [[nodiscard]] u64 count(u32 host, net::Cause cause) {
    return control_->plane()->counters(host + 1).of[static_cast<u32>(cause)];
  }

  u32 tool_ = 0;
  u64 now_ = 1'000'000'000;
};

TEST_F(FaultsTest, OnlyToolsMayAsk) {
  TestProcess process = start("host0");
  EXPECT_EQ(error_of<ipc::Fault>(process, request(FaultKind::link_down, host1)), EPERM);
  EXPECT_EQ(state(1), PortState::active);
  EXPECT_EQ(to_int(call<ipc::Fault>(control_->connect(1), 0, request(FaultKind::stop_manager)).error()), ENOTCONN);
}

TEST_F(FaultsTest, WhatCantBeIsRefused) {
  EXPECT_EQ(refusal(request(FaultKind{0})), EINVAL);
  EXPECT_EQ(refusal(request(FaultKind{99})), EINVAL);
  EXPECT_EQ(refusal(request(FaultKind::link_down, {0, 2, 0, 1})), EINVAL) << "no such host";
  EXPECT_EQ(refusal(request(FaultKind::link_down, {0, 0, 1, 1})), EINVAL) << "no such HCA";
  EXPECT_EQ(refusal(request(FaultKind::link_down, {0, 0, 0, 2})), EINVAL) << "no such port";
  EXPECT_EQ(refusal(request(FaultKind::link_down, {1, 0, 0, 41})), EINVAL);
  EXPECT_EQ(refusal(request(FaultKind::link_down, {1, 0, 0, 257})), EINVAL) << "not port 1";
  EXPECT_EQ(refusal(request(FaultKind::link_down, {2, 0, 0, 1})), EINVAL);
  EXPECT_EQ(refusal(request(FaultKind::link_down, the_switch)), EINVAL) << "a port is wanted";
  EXPECT_EQ(refusal(request(FaultKind::power_off, host1)), EINVAL) << "a node is wanted";
  EXPECT_EQ(refusal(request(FaultKind::reboot, the_switch)), EINVAL);
  EXPECT_EQ(refusal(request(FaultKind::link_down, {1, 0, 0, 9})), ENXIO) << "no cable";
  EXPECT_EQ(refusal(request(FaultKind::swap, {1, 0, 0, 9}, {1, 0, 0, 8})), ENXIO);
  EXPECT_EQ(refusal(request(FaultKind::swap, host0, port1_of_switch)), EINVAL) << "two ends of one cable";
  EXPECT_EQ(refusal(request(FaultKind::swap, host0, host0)), EINVAL);
  EXPECT_EQ(refusal(request(FaultKind::link_flap, host0)), EINVAL) << "no times";
  EXPECT_EQ(refusal(request(FaultKind::link_speed, host0)), EINVAL);
  Request wild = request(FaultKind::link_width, host0);
  wild.amount = 3;  // two widths at once
  EXPECT_EQ(refusal(wild), EINVAL);
  for (double rate : {-0.1, 0.6, std::nan(""), std::numeric_limits<double>::infinity()}) {
    wild = request(FaultKind::bit_errors, host0);
    wild.rate = rate;
    EXPECT_EQ(refusal(wild), EINVAL) << rate;
  }
  wild = request(FaultKind::add_count, host0);
  wild.amount = 1;
  for (const auto counter : {ipc::PortCounter::end, ipc::PortCounter::port_xmit_data}) {
    wild.counter = counter;
    EXPECT_EQ(refusal(wild), EINVAL);
  }
  EXPECT_EQ(faults(), "");
}

TEST_F(FaultsTest, APulledCable) {
  TestProcess process = start("host1");
  EXPECT_EQ(break_it(request(FaultKind::link_down, port2_of_switch)).changed, 1U);
  EXPECT_EQ(state(1), PortState::down);
  EXPECT_EQ(state(0), PortState::active);
  EXPECT_EQ(count(1, net::Cause::link_downed), 1U);
  EXPECT_EQ(faults(), "sw0:2 - host1/mlx5_0:1: down\n");
  EXPECT_EQ(ask(request(FaultKind::link_down, host1))->changed, 0U) << "from its other end";
  EXPECT_THAT(events(process.async), testing::ElementsAre(IBV_EVENT_PORT_ERR));
  EXPECT_EQ(break_it(request(FaultKind::link_up, host1)).changed, 1U);
  EXPECT_EQ(state(1), PortState::init);
  let_traps_pass();
  EXPECT_EQ(state(1), PortState::active) << "the switch told the subnet manager";
  EXPECT_THAT(events(process.async), testing::ElementsAre(IBV_EVENT_PORT_ACTIVE, IBV_EVENT_CLIENT_REREGISTER));
  EXPECT_EQ(faults(), "");
}

TEST_F(FaultsTest, AFlappingLink) {
  Request flap = request(FaultKind::link_flap, host1);
  flap.times = 3;
  flap.ns = 100 * ms;
  break_it(flap);
  EXPECT_EQ(state(1), PortState::down);
  EXPECT_THAT(faults(), testing::HasSubstr("flapping"));
  for (int i = 0; i < 2; ++i) {
    pass(51 * ms);
    EXPECT_NE(state(1), PortState::down);
    pass(40 * ms);
    EXPECT_NE(state(1), PortState::down) << "not before its time";
    pass(11 * ms);
    EXPECT_EQ(state(1), PortState::down);
  }
  pass(51 * ms);
  EXPECT_NE(state(1), PortState::down);
  let_traps_pass();
  EXPECT_EQ(state(1), PortState::active);
  EXPECT_EQ(count(1, net::Cause::link_downed), 3U);
  EXPECT_EQ(faults(), "");
}

TEST_F(FaultsTest, AFlappingLinkIsStopped) {
  for (FaultKind end : {FaultKind::link_up, FaultKind::link_down, FaultKind::link_reset}) {
    Request flap = request(FaultKind::link_flap, host1);
    flap.times = 1000;
    flap.ns = 100 * ms;
    break_it(flap);
    break_it(request(end, port2_of_switch));
    pass(5000 * ms);
    EXPECT_EQ(state(1), end == FaultKind::link_down ? PortState::down : PortState::active);
    break_it(request(FaultKind::link_reset, host1));
  }
}

TEST_F(FaultsTest, ASlowLink) {
  Request slow = request(FaultKind::link_width, host0);
  slow.amount = static_cast<u64>(fabric::Width::x1);
  break_it(slow);
  slow.kind = FaultKind::link_speed;
  slow.amount = static_cast<u64>(fabric::Speed::sdr);
  break_it(slow);
  let_traps_pass();
  EXPECT_EQ(state(0), PortState::active) << "trained and brought up again";
  EXPECT_EQ(segment().ports[1].active_width, static_cast<u32>(fabric::Width::x1)) << "the first limit holds";
  EXPECT_EQ(segment().ports[1].active_speed, static_cast<u32>(fabric::Speed::sdr));
  EXPECT_EQ(faults(), "sw0:1 - host0/mlx5_0:1: width 1x\nsw0:1 - host0/mlx5_0:1: speed SDR\n");
  break_it(request(FaultKind::link_reset, host0));
  EXPECT_EQ(segment().ports[1].active_width, static_cast<u32>(fabric::Width::x4));
  EXPECT_EQ(faults(), "");
}

TEST_F(FaultsTest, BitErrorsCountFromTheirBeginning) {
  pass(60'000 * ms);
  Request errors = request(FaultKind::bit_errors, host0);
  errors.rate = 1e-10;
  now_ += 60'000 * ms;  // nothing was to be done all that time
  break_it(errors);
  EXPECT_EQ(count(0, net::Cause::symbol_error), 0U);
  pass(1000 * ms);
  EXPECT_EQ(count(0, net::Cause::symbol_error), 20U) << "at 200 Gb/s";
  pass(2000 * ms);
  EXPECT_EQ(count(0, net::Cause::symbol_error), 60U);
  EXPECT_EQ(count(0, net::Cause::link_recovery), 0U) << "for that they are too few";
  EXPECT_EQ(faults(), "sw0:1 - host0/mlx5_0:1: ber 1e-10\n");
}

TEST_F(FaultsTest, SwappedCables) {
  break_it(request(FaultKind::swap, port1_of_switch, port2_of_switch));
  EXPECT_EQ(state(0), PortState::active);
  EXPECT_EQ(faults(), "host0/mlx5_0:1 - sw0:1: goes to sw0:2 instead\nhost1/mlx5_0:1 - sw0:2: goes to sw0:1 instead\n");
  break_it(request(FaultKind::swap, port1_of_switch, port2_of_switch));
  EXPECT_EQ(faults(), "");
  break_it(request(FaultKind::swap, port1_of_switch, {1, 0, 0, 7}));
  EXPECT_THAT(faults(), testing::HasSubstr("host0/mlx5_0:1 - sw0:1: goes to sw0:7 instead\n"));
}

TEST_F(FaultsTest, AHostDiesWithItsPrograms) {
  TestProcess victim = start("host1");
  TestProcess other = start("host0");
  const auto reply = break_it(request(FaultKind::power_off, all_of_host1));
  EXPECT_EQ(reply.killed, 1U);
  EXPECT_EQ(watcher_.killed, std::vector<u32>{victim.peer}) << "neither the tool nor others";
  EXPECT_EQ(state(1), PortState::down);
  EXPECT_EQ(segment().ports[2].lid, 0U);
  EXPECT_EQ(faults(), "host host1: off\n");
  EXPECT_EQ(break_it(request(FaultKind::power_on, all_of_host1)).changed, 1U);
  let_traps_pass();
  EXPECT_EQ(state(1), PortState::active);
  EXPECT_NE(segment().ports[2].lid, 0U);
}

constexpr FaultPlace hca_of_host1{0, 1, 0, 0};

TEST_F(FaultsTest, AnHcaIsPulledOut) {
  TestProcess victim = start("host1");
  TestProcess other = start("host0");
  const Connection lost = make_qp(victim), kept = make_qp(other);
  const u32 generation = qp(lost.qpn).generation;
  EXPECT_EQ(break_it(request(FaultKind::remove_hca, hca_of_host1)).killed, 0U);
  EXPECT_EQ(watcher_.killed, std::vector<u32>{});
  EXPECT_EQ(state(1), PortState::down);
  EXPECT_EQ(faults(), "hca host1/mlx5_0: removed\n");
  EXPECT_EQ(events(victim.async), std::vector<u32>{IBV_EVENT_DEVICE_FATAL});
  pollfd end{victim.async.get(), POLLIN, 0};
  EXPECT_EQ(::poll(&end, 1, 0), 1);
  EXPECT_TRUE(end.revents & POLLHUP) << "nothing more will come";
  EXPECT_EQ(error_of<ipc::AllocPd>(victim), EIO);
  EXPECT_EQ(error_of<ipc::DestroyQp>(victim, {lost.qpn}), EIO);
  EXPECT_NE(qp(lost.qpn).generation, generation) << "peers still find it";
  EXPECT_EQ(qp(lost.qpn).state, ipc::QpState::destroyed);
  EXPECT_EQ(to_int(call<ipc::OpenContext>(victim.peer, 0, {victim.attached.host + 1, 0}).error()), ENODEV);
  EXPECT_EQ(error_of<ipc::AllocPd>(other), 0);
  EXPECT_NE(qp(kept.qpn).generation, 0U);
  EXPECT_EQ(break_it(request(FaultKind::remove_hca, hca_of_host1)).changed, 0U);
}

TEST_F(FaultsTest, AnHcaThatIsPulledOutTakesItsMadFilesAlong) {
  TestProcess victim = start("host1"), other = start("host0");
  const auto open_umad = [&](TestProcess& process, u32 issm) {
    Fd file;
    EXPECT_TRUE(call<ipc::OpenUmad>(process.peer, 0, {0, issm}, {}, &file));
    return file;
  };
  const auto hung_up = [](const Fd& file) {
    pollfd end{file.get(), POLLIN, 0};
    return ::poll(&end, 1, 0) == 1 && (end.revents & POLLHUP);
  };
  const Fd file = open_umad(victim, 0), manager = open_umad(victim, 1), kept = open_umad(other, 0);
  break_it(request(FaultKind::remove_hca, hca_of_host1));
  EXPECT_TRUE(hung_up(file) && hung_up(manager));
  EXPECT_FALSE(hung_up(kept));
  EXPECT_EQ(control_->plane()->issm_ports(), std::vector<u32>{});
  EXPECT_EQ(error_of<ipc::OpenUmad>(victim, {0, 0}), ENXIO);
  break_it(request(FaultKind::add_hca, hca_of_host1));
  EXPECT_TRUE(hung_up(file)) << "it has to be opened anew";
  EXPECT_FALSE(hung_up(open_umad(victim, 1)));
}

TEST_F(FaultsTest, AnHcaThatComesBackIsAnother) {
  TestProcess victim = start("host1");
  const Connection lost = make_qp(victim);
  break_it(request(FaultKind::remove_hca, hca_of_host1));
  pass(30'000 * ms);
  EXPECT_EQ(break_it(request(FaultKind::add_hca, hca_of_host1)).changed, 1U);
  EXPECT_EQ(break_it(request(FaultKind::add_hca, hca_of_host1)).changed, 0U);
  let_traps_pass();
  EXPECT_EQ(state(1), PortState::active);
  EXPECT_EQ(faults(), "");
  EXPECT_EQ(error_of<ipc::AllocPd>(victim), EIO) << "who had it open has nothing of that";
  EXPECT_EQ(qp(lost.qpn).state, ipc::QpState::destroyed);
  TestProcess fresh = start("host1");
  EXPECT_NE(make_qp(fresh).qpn, lost.qpn) << "its rings may still be written to";
  die(victim);
  settle();
  EXPECT_EQ(control_->contexts().all().size(), 1U);
}

TEST_F(FaultsTest, AHostThatIsSwitchedOnHasAllItsHcas) {
  break_it(request(FaultKind::remove_hca, hca_of_host1));
  break_it(request(FaultKind::power_off, all_of_host1));
  EXPECT_EQ(faults(), "host host1: off\n");
  EXPECT_EQ(refusal(request(FaultKind::add_hca, hca_of_host1)), EHOSTDOWN);
  break_it(request(FaultKind::power_on, all_of_host1));
  let_traps_pass();
  EXPECT_EQ(state(1), PortState::active);
  EXPECT_EQ(faults(), "");
  EXPECT_EQ(refusal(request(FaultKind::remove_hca, {0, 1, 1, 0})), EINVAL) << "no such HCA";
  EXPECT_EQ(refusal(request(FaultKind::remove_hca, host1)), EINVAL) << "a port of it";
  EXPECT_EQ(refusal(request(FaultKind::remove_hca, the_switch)), EINVAL);
}

TEST_F(FaultsTest, AHostBoots) {
  Request reboot = request(FaultKind::reboot, all_of_host1);
  reboot.ns = 500 * ms;
  break_it(reboot);
  EXPECT_EQ(state(1), PortState::down);
  pass(400 * ms);
  EXPECT_EQ(state(1), PortState::down);
  pass(110 * ms);
  EXPECT_NE(state(1), PortState::down);
  let_traps_pass();
  EXPECT_EQ(state(1), PortState::active);
  break_it(reboot);
  break_it(request(FaultKind::power_off, all_of_host1));
  pass(5000 * ms);
  EXPECT_EQ(state(1), PortState::down) << "off stays off";
}

// The built-in manager sits in it, and dies and comes back with it.
TEST_F(FaultsTest, ASwitchWithoutPower) {
  break_it(request(FaultKind::power_off, the_switch));
  EXPECT_EQ(state(0), PortState::down);
  EXPECT_EQ(faults(), "switch sw0: off\n");
  pass(30'000 * ms);
  EXPECT_EQ(break_it(request(FaultKind::power_on, the_switch)).changed, 1U);
  EXPECT_EQ(state(0), PortState::active);
  EXPECT_EQ(state(1), PortState::active);
  EXPECT_EQ(faults(), "");
}

TEST_F(FaultsTest, ASubnetWithoutManager) {
  break_it(request(FaultKind::stop_manager));
  EXPECT_EQ(state(1), PortState::active) << "what was up stays up";
  EXPECT_EQ(faults(), "subnet manager: dead\n");
  break_it(request(FaultKind::link_down, host1));
  break_it(request(FaultKind::link_up, host1));
  pass(60'000 * ms);
  EXPECT_EQ(state(1), PortState::init);
  break_it(request(FaultKind::power_off, the_switch));
  break_it(request(FaultKind::power_on, the_switch));
  EXPECT_EQ(state(0), PortState::init) << "it does not come back with its switch";
  EXPECT_EQ(break_it(request(FaultKind::start_manager)).changed, 1U);
  EXPECT_EQ(state(0), PortState::active);
  EXPECT_EQ(state(1), PortState::active);
}

TEST_F(FaultsTest, AManagerThatRunsStartsAnewWhenTold) {
  const auto received = [&] { return control_->plane()->counters(1).receive_packets; };
  const u64 before = received();
  EXPECT_EQ(break_it(request(FaultKind::start_manager)).changed, 1U);
  EXPECT_GE(received(), before + 5) << "it looks at everything again";
  EXPECT_EQ(state(1), PortState::active) << "and nobody notices";
  EXPECT_EQ(faults(), "");
}

// As `ibportstate` does.
TEST_F(FaultsTest, WhatAManagerDisabledIsResetToo) {
  net::Network& network = control_->plane()->network();
  ASSERT_FALSE(network.enable_ports({network.hca_node(1, 0), 1}));
  disable(port2_of_switch);
  EXPECT_EQ(faults(), "sw0:2 - host1/mlx5_0:1: disabled\n");
  const auto up = break_it(request(FaultKind::link_up, host1));
  EXPECT_EQ(up.changed, 0U);
  EXPECT_EQ(up.disabled, 1U);
  EXPECT_EQ(break_it(request(FaultKind::link_reset, host1)).changed, 1U);
  let_traps_pass();
  EXPECT_EQ(faults(), "");
  EXPECT_EQ(state(1), PortState::active);
  EXPECT_EQ(break_it(request(FaultKind::link_reset, host1)).changed, 0U);
}

TEST_F(FaultsTest, CountersStickAndCount) {
  Request add = request(FaultKind::add_count, host0);
  add.counter = ipc::PortCounter::symbol_error;
  add.amount = 7;
  break_it(add);
  EXPECT_EQ(count(0, net::Cause::symbol_error), 7U);
  EXPECT_EQ(break_it(request(FaultKind::stick_counters, host0)).changed, 1U);
  EXPECT_EQ(break_it(request(FaultKind::stick_counters, host0)).changed, 0U);
  EXPECT_EQ(faults(), "host0/mlx5_0:1: counters stuck\n");
  EXPECT_EQ(break_it(request(FaultKind::free_counters, host0)).changed, 1U);
}

TEST_F(FaultsTest, LinksAreListedAsTheyAre) {
  break_it(request(FaultKind::link_down, host1));
  auto piece = call<ipc::Status>(tool_, 0, {0, ipc::Topic::links, 0});
  ASSERT_TRUE(piece);
  const json links = json::parse(std::string_view(piece->text, piece->length));
  ASSERT_EQ(links.size(), 2U);
  EXPECT_EQ(links[0], json::parse(R"({"ends": ["sw0:1", "host0/mlx5_0:1"], "state": "ACTIVE", "physical": "LinkUp",
                                      "width": "4x", "speed": "HDR", "faults": []})"));
  EXPECT_EQ(links[1], json::parse(R"({"ends": ["sw0:2", "host1/mlx5_0:1"], "state": "DOWN", "physical": "Polling",
                                      "width": null, "speed": null, "faults": ["down"]})"));
}

// Whatever a tool asks for: nobody dies of it but whom it kills, and all of it can be mended.
TEST_F(FaultsTest, AnyRequest) {
  const u64 seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  u32 done = 0;
  for (int i = 0; i < 3000; ++i) {
    Request wild{};
    auto* bytes = reinterpret_cast<u8*>(&wild);
    if (random() % 4 == 0)
      for (size_t at = 0; at < sizeof wild; ++at) bytes[at] = static_cast<u8>(random());
    wild.kind = static_cast<FaultKind>(random() % 21);
    const auto place = [&] {
      const u32 sw = random() % 2;
      return FaultPlace{sw, static_cast<u32>(random() % (sw ? 1 : 2)), 0, static_cast<u32>(random() % 4)};
    };
    if (random() % 8) wild.a = place();
    if (random() % 8) wild.b = place();
    wild.times = random() % 4;
    wild.ns = random() % 2 ? random() % 100 * ms : wild.ns;
    wild.amount = random() % 2 ? 1U << random() % 10 : wild.amount;
    done += refusal(wild) == 0;
    pass(random() % 20 * ms);
  }
  EXPECT_GT(done, 300U);
  pass(200'000 * ms);  // what flaps and boots comes to an end
  for (u32 node : {0U, 1U}) (void)ask(request(FaultKind::power_on, {0, node, 0, 0}));
  (void)ask(request(FaultKind::power_on, the_switch));
  for (u32 port = 1; port <= 4; ++port) (void)ask(request(FaultKind::link_reset, {1, 0, 0, port}));
  for (const FaultPlace& host : {host0, host1}) (void)ask(request(FaultKind::link_reset, host));
  (void)ask(request(FaultKind::start_manager));
  for (int i = 0; i < 100; ++i) pass(1000 * ms);
  const auto& network = control_->plane()->network();
  for (u32 host : {0U, 1U}) {
    const auto far = network.other_end({network.hca_node(host, 0), 1});
    const bool connected = far && network.kind(far->node) == net::NodeKind::sw;
    EXPECT_TRUE(!connected || state(host) == PortState::active) << host;
  }
}

class EthernetFaults : public FaultsTest {
 protected:
  EthernetFaults() : FaultsTest(ipc::LinkLayer::ethernet) {}
};

TEST_F(EthernetFaults, AreNotThere) {
  EXPECT_EQ(refusal(request(FaultKind::link_down, host0)), EOPNOTSUPP);
  auto piece = call<ipc::Status>(tool_, 0, {0, ipc::Topic::links, 0});
  ASSERT_TRUE(piece);
  EXPECT_EQ(std::string_view(piece->text, piece->length), "[]");
}

TEST(FaultsWithoutManager, AreRefused) {
  FakeWatcher watcher;
  auto control = *Control::create(*fabric::parse("{hosts: 2, sm: none}", "test"), watcher);
  Request kill{};
  kill.kind = FaultKind::stop_manager;
  EXPECT_EQ(to_int(control->faults()->check(kill).error()), ENOENT);
}

}  // namespace
}  // namespace softib::daemon
