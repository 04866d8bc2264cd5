// What softibd answers to those who look at a host's files: trees that are made when they are asked for, and counters.
#include <gmock/gmock.h>

#include <cstdlib>
#include <filesystem>

#include "control_fixture.h"
#include "fabric/runtime.h"
#include "fabric/sysfs.h"
#include "wire/perf_attributes.h"

namespace softib::daemon {
namespace {

namespace fs = std::filesystem;

template <size_t N>
void put(char (&to)[N], std::string_view text) {
  text.copy(to, N - 1);
}

class ControlFiles : public ControlTest {
 protected:
  explicit ControlFiles(ipc::LinkLayer layer = ipc::LinkLayer::infiniband) : ControlTest(layer) {
    std::string pattern = (fs::temp_directory_path() / "softib-trees-XXXXXX").string();
    dir_ = ::mkdtemp(pattern.data());
  }
  ~ControlFiles() override {
    std::error_code ignored;
    fs::remove_all(dir_, ignored);
  }

  int prepare(std::string_view host) {
    ipc::PrepareHost::Request request{};
    put(request.host, host);
    auto done = call<ipc::PrepareHost>(control_->connect(0), 0, request);  // who asks is nobody
    return done ? 0 : to_int(done.error());
  }
  Result<u64> read(std::string_view host, std::string_view device, u32 port, ipc::PortCounter counter) {
    ipc::ReadCounter::Request request{};
    put(request.host, host);
    put(request.device, device);
    request.port = port;
    request.counter = counter;
    auto reply = call<ipc::ReadCounter>(control_->connect(0), 0, request);
    if (!reply) return fail(reply.error());
    return reply->value;
  }
  [[nodiscard]] std::string port_file(const char* host, const char* name) const {
    auto text = fabric::read_file(dir_ + "/hosts/" + host + "/sys/class/infiniband/mlx5_0/ports/1/" + name);
    return text ? *text : "<none>";
  }

  std::string dir_;
};

class ControlFilesEthernet : public ControlFiles {
 protected:
  ControlFilesEthernet() : ControlFiles(ipc::LinkLayer::ethernet) {}
};

TEST_F(ControlFiles, ATreeIsMadeForWhoAsksAndForNobodyElse) {
  EXPECT_EQ(prepare("host0"), ENOENT) << "the folder is not known yet";
  control_->keep_trees_in(dir_);
  EXPECT_FALSE(fs::exists(dir_ + "/hosts"));
  EXPECT_EQ(prepare("host0"), 0);
  EXPECT_EQ(port_file("host0", "state"), "4: ACTIVE\n");
  EXPECT_FALSE(fs::exists(dir_ + "/hosts/host1"));
  EXPECT_EQ(prepare("host0"), 0) << "once more is no error";
  EXPECT_EQ(prepare("host7"), ENODEV);
  EXPECT_EQ(prepare(std::string(64, 'x')), ENODEV);
}

TEST_F(ControlFiles, ATreeThatWasTakenAwayIsMadeAgain) {
  control_->keep_trees_in(dir_);
  ASSERT_EQ(prepare("host0"), 0);
  fs::remove_all(dir_ + "/hosts/host0");
  EXPECT_EQ(prepare("host0"), 0);
  EXPECT_EQ(port_file("host0", "state"), "4: ACTIVE\n");
}

// Whatever happened before a tree was made and after shows in it.
TEST_F(ControlFiles, ATreeShowsThePortAsItIs) {
  control_->keep_trees_in(dir_);
  net::Network& network = control_->plane()->network();
  network.cut({network.hca_node(1, 0), 1});
  control_->advance(2);
  ASSERT_EQ(prepare("host1"), 0);
  EXPECT_EQ(port_file("host1", "state"), "1: DOWN\n");
  network.mend({network.hca_node(1, 0), 1});
  for (u64 now = 3; now < 6; ++now) control_->advance(now * 1'000'000'000);
  EXPECT_EQ(port_file("host1", "state"), "4: ACTIVE\n");
  EXPECT_FALSE(fs::exists(dir_ + "/hosts/host0")) << "changes make no trees";
}

TEST_F(ControlFiles, ATreeThatCannotBeWrittenIsAnError) {
  control_->keep_trees_in(dir_ + "/none");
  EXPECT_EQ(prepare("host0"), ENOENT);
}

TEST_F(ControlFiles, EveryCounterOfTheTreeHasItsOwnPlaceInPma) {
  net::Network& network = control_->plane()->network();
  const net::PortRef port{network.hca_node(0, 0), 1};
  const net::PortRef far{network.switch_node(0), 1};
  const auto baseline = [&](ipc::PortCounter counter) { return *read("host0", "mlx5_0", 1, counter); };
  using enum ipc::PortCounter;
  const u64 words = baseline(port_xmit_data);
  const u64 unicast = baseline(unicast_xmit_packets);
  const net::Hop there{port, far};
  const net::Hop back{far, port};
  network.count(std::span(&there, 1), {10, 1000, false});
  network.count(std::span(&there, 1), {3, 30, true});
  network.count(std::span(&back, 1), {5, 500, true});
  EXPECT_EQ(baseline(port_xmit_data), words + 1030);
  EXPECT_EQ(baseline(unicast_xmit_packets), unicast + 10);
  EXPECT_EQ(baseline(multicast_xmit_packets), 3U);
  EXPECT_EQ(baseline(multicast_rcv_packets), 5U);
  constexpr std::pair<net::Cause, ipc::PortCounter> causes[] = {
      {net::Cause::symbol_error, symbol_error},
      {net::Cause::link_recovery, link_error_recovery},
      {net::Cause::link_downed, link_downed},
      {net::Cause::receive_error, port_rcv_errors},
      {net::Cause::remote_physical, port_rcv_remote_physical_errors},
      {net::Cause::switch_relay, port_rcv_switch_relay_errors},
      {net::Cause::xmit_discard, port_xmit_discards},
      {net::Cause::xmit_constraint, port_xmit_constraint_errors},
      {net::Cause::receive_constraint, port_rcv_constraint_errors},
      {net::Cause::local_integrity, local_link_integrity_errors},
      {net::Cause::buffer_overrun, excessive_buffer_overrun_errors},
      {net::Cause::vl15_dropped, vl15_dropped},
      {net::Cause::xmit_wait, port_xmit_wait},
  };
  u64 times = 0;
  for (const auto& [cause, counter] : causes) network.count(port, cause, ++times);
  times = 0;
  for (const auto& [cause, counter] : causes)
    EXPECT_EQ(baseline(counter), ++times) << ipc::port_counter_names[static_cast<u32>(counter)];
}

TEST_F(ControlFiles, CountersStopAndAreResetAsPmaHasIt) {
  net::Network& network = control_->plane()->network();
  const net::PortRef port{network.hca_node(0, 0), 1};
  network.count(port, net::Cause::link_downed, 1000);
  EXPECT_EQ(*read("host0", "mlx5_0", 1, ipc::PortCounter::link_downed), 255U);
  wire::Packet reset;
  wire::set(reset.mad, wire::header::method, static_cast<u8>(wire::Method::set));
  wire::set(reset.mad, wire::header::attribute, static_cast<u16>(wire::PerfAttribute::port_counters));
  const auto data = std::span(reset.mad).subspan(wire::perf::data_at);
  wire::set(data, wire::counters::port_select, 1);
  wire::set(data, wire::counters::select, 0xffff);
  EXPECT_EQ(network.ask_pma(port, reset), wire::MadStatus::ok);
  EXPECT_EQ(*read("host0", "mlx5_0", 1, ipc::PortCounter::link_downed), 0U);
}

TEST_F(ControlFiles, CountersOfWhatIsNotThere) {
  EXPECT_EQ(to_int(read("host9", "mlx5_0", 1, ipc::PortCounter::link_downed).error()), ENODEV);
  EXPECT_EQ(to_int(read("host0", "mlx5_1", 1, ipc::PortCounter::link_downed).error()), ENODEV);
  EXPECT_EQ(to_int(read("host0", "mlx5_0", 0, ipc::PortCounter::link_downed).error()), ENODEV);
  EXPECT_EQ(to_int(read("host0", "mlx5_0", 2, ipc::PortCounter::link_downed).error()), ENODEV);
  EXPECT_EQ(to_int(read("host0", "mlx5_0", 1, ipc::PortCounter::end).error()), EINVAL);
  EXPECT_EQ(to_int(read("host0", "mlx5_0", 1, static_cast<ipc::PortCounter>(~0U)).error()), EINVAL);
}

TEST_F(ControlFilesEthernet, NothingCountsThere) {
  EXPECT_EQ(to_int(read("host0", "mlx5_0", 1, ipc::PortCounter::port_xmit_data).error()), EOPNOTSUPP);
  control_->keep_trees_in(dir_);
  ASSERT_EQ(prepare("host0"), 0);
  EXPECT_EQ(port_file("host0", "gid_attrs/types/1"), "RoCE v2\n");
}

TEST(ControlKinds, NobodyRunsProgramsOnAnAggregationNode) {
  FakeWatcher watcher;
  auto control = Control::create(*fabric::parse("{hosts: [alpha, {name: sharp, kind: aggregation}]}", "f"), watcher);
  ASSERT_TRUE(control);
  struct {
    ipc::RequestHeader header{ipc::Op::prepare_host, 0};
    ipc::PrepareHost::Request body{};
  } message;
  put(message.body.host, "sharp");
  auto reply = (*control)->handle((*control)->connect(0), {reinterpret_cast<const u8*>(&message), sizeof message});
  EXPECT_EQ(reply.header.error, EPERM);
}

}  // namespace
}  // namespace softib::daemon
