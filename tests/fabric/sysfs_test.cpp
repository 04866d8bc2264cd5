#include "fabric/sysfs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include <sys/stat.h>

#include <filesystem>

#include "fabric/runtime.h"
#include "temp_dir.h"

namespace softib::fabric {
namespace {

namespace fs = std::filesystem;
using testing::UnorderedElementsAre;

class Sysfs : public testing::Test {
 protected:
  void write(Fabric fabric) {
    fabric_ = std::move(fabric);
    for (u32 host = 0; host < fabric_.hosts.size(); ++host) {
      auto written = write_host(host);
      ASSERT_TRUE(written) << to_int(written.error());
    }
  }
  [[nodiscard]] std::vector<PortStatus> initial(u32 host) const {
    std::vector<PortStatus> ports;
    for (const Hca& hca : fabric_.hosts[host].hcas)
      for (const Port& port : hca.ports) ports.push_back(initial_status(fabric_, port));
    return ports;
  }
  [[nodiscard]] Result<void> write_host(u32 host) const {
    return write_host_tree(dir_.path(), fabric_, host, initial(host));
  }
  std::string read(const std::string& path) {
    auto text = read_file(dir_ / ("hosts/" + path));
    return text ? *text : "<errno " + std::to_string(to_int(text.error())) + ">";
  }
  void expect_files(const std::string& folder, const std::vector<std::pair<const char*, const char*>>& contents) {
    for (const auto& [name, text] : contents) EXPECT_EQ(read(folder + name), text) << name;
  }
  std::vector<std::string> list(const std::string& path) {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(dir_ / ("hosts/" + path))) names.push_back(entry.path().filename());
    return names;
  }

  test::TempDir dir_;
  Fabric fabric_;
};

TEST_F(Sysfs, DeviceOfTheDefaultFabric) {
  write(default_fabric());
  std::string device = "host1/sys/class/infiniband/mlx5_0/";
  expect_files(device, {{"node_guid", "5254:00ff:fe00:0011\n"},
                        {"sys_image_guid", "5254:00ff:fe00:0011\n"},
                        {"node_type", "1: CA\n"},
                        {"node_desc", "host1 mlx5_0\n"},
                        {"hca_type", "SoftIB\n"},
                        {"fw_ver", "1.0.0\n"},
                        {"hw_rev", "0\n"},
                        {"board_id", "SOFTIB_0001\n"},
                        {"device/class", "0x020700\n"},
                        {"device/infiniband/mlx5_0/node_type", "1: CA\n"},
                        {"subsystem/mlx5_0/node_type", "1: CA\n"}});
}

TEST_F(Sysfs, PortOfTheDefaultFabric) {
  write(default_fabric());
  std::string port = "host0/sys/class/infiniband/mlx5_0/ports/1/";
  expect_files(port, {{"state", "4: ACTIVE\n"},
                      {"phys_state", "5: LinkUp\n"},
                      {"link_layer", "InfiniBand\n"},
                      {"rate", "200 Gb/sec (4X HDR)\n"},
                      {"lid", "0x2\n"},
                      {"lid_mask_count", "0\n"},
                      {"sm_lid", "0x1\n"},
                      {"sm_sl", "0\n"},
                      {"cap_mask", "0x02014800\n"},
                      {"gids/0", "fe80:0000:0000:0000:5254:00ff:fe00:0001\n"},
                      {"gid_attrs/types/0", "IB/RoCE v1\n"},
                      {"gid_attrs/ndevs/0", ""},
                      {"pkeys/0", "0xffff\n"}});
  for (const char* table : {"gids", "gid_attrs/types", "gid_attrs/ndevs", "pkeys"})
    EXPECT_EQ(list(port + table).size(), 1U) << table;
  expect_files(
      port, {{"counters/port_xmit_data", "0\n"}, {"counters/symbol_error", "0\n"}, {"hw_counters/lifespan", "10\n"}});
}

TEST_F(Sysfs, MadDevices) {
  write(*parse("{hosts: [{hcas: [{ports: 2}, mlx5_1]}]}", "f"));
  EXPECT_THAT(list("host0/sys/class/infiniband_mad"),
              UnorderedElementsAre("abi_version", "umad0", "umad1", "umad2", "issm0", "issm1", "issm2"));
  expect_files("host0/sys/class/infiniband_mad/umad1/", {{"dev", "231:1\n"}, {"ibdev", "mlx5_0\n"}, {"port", "2\n"}});
  expect_files("host0/sys/class/infiniband_mad/issm2/", {{"dev", "231:66\n"}, {"ibdev", "mlx5_1\n"}, {"port", "1\n"}});
}

TEST_F(Sysfs, NoMadDevicesOnEthernet) {
  write(*parse("{hosts: 1, link_layer: ethernet}", "f"));
  EXPECT_THAT(list("host0/dev/infiniband"), UnorderedElementsAre("uverbs0", "rdma_cm"));
}

TEST_F(Sysfs, VerbsDevices) {
  write(*parse("{hosts: 1, hcas: 2}", "f"));
  EXPECT_THAT(list("host0/sys/class/infiniband"), UnorderedElementsAre("mlx5_0", "mlx5_1"));
  EXPECT_THAT(list("host0/sys/class/infiniband_verbs"), UnorderedElementsAre("abi_version", "uverbs0", "uverbs1"));
  EXPECT_THAT(list("host0/dev/infiniband"),
              UnorderedElementsAre("uverbs0", "uverbs1", "umad0", "umad1", "issm0", "issm1", "rdma_cm"));
  EXPECT_EQ(read("host0/sys/class/infiniband_verbs/abi_version"), "6\n");
  EXPECT_EQ(read("host0/sys/class/infiniband_mad/abi_version"), "5\n");
  std::string node = "host0/sys/class/infiniband_verbs/uverbs1/";
  expect_files(node, {{"dev", "231:193\n"},
                      {"ibdev", "mlx5_1\n"},
                      {"abi_version", "2\n"},
                      {"device/infiniband/mlx5_1/node_desc", "host0 mlx5_1\n"}});
  EXPECT_TRUE(fs::exists(dir_ / "hosts/host0/sys/class/infiniband/mlx5_1/device/infiniband_verbs/uverbs1"));
}

TEST_F(Sysfs, LinksAreRelative) {
  write(default_fabric());
  for (const auto& entry : fs::recursive_directory_iterator(dir_.path()))
    if (entry.is_symlink()) {
      EXPECT_TRUE(fs::read_symlink(entry).is_relative()) << entry.path();
      EXPECT_TRUE(fs::exists(entry.path())) << entry.path() << " points nowhere";
    }
}

TEST_F(Sysfs, Ethernet) {
  write(*parse("{hosts: 1, hcas: 2, link_layer: ethernet}", "f"));
  std::string port = "host0/sys/class/infiniband/mlx5_1/ports/1/";
  expect_files(port, {{"link_layer", "Ethernet\n"},
                      {"lid", "0x0\n"},
                      {"cap_mask", "0x00010000\n"},
                      {"gid_attrs/types/0", "IB/RoCE v1\n"},
                      {"gid_attrs/types/1", "RoCE v2\n"},
                      {"gids/3", "0000:0000:0000:0000:0000:ffff:0a01:0001\n"},
                      {"gid_attrs/ndevs/3", "roce1\n"}});
  EXPECT_EQ(list(port + "gids").size(), 4U);
  EXPECT_EQ(read("host0/sys/class/infiniband/mlx5_1/device/class"), "0x020000\n");
}

TEST_F(Sysfs, RealMakesShowTheirIdentity) {
  write(*parse("hosts: [{hcas: [{model: connectx-6}]}]", "f"));
  std::string device = "host0/sys/class/infiniband/mlx5_0/";
  expect_files(device, {{"hca_type", "MT4123\n"}, {"device/vendor", "0x15b3\n"}, {"device/device", "0x101b\n"}});
}

TEST_F(Sysfs, UncabledPort) {
  write(*parse("{hosts: 1, cables: []}", "f"));
  EXPECT_EQ(read("host0/sys/class/infiniband/mlx5_0/ports/1/state"), "1: DOWN\n");
  EXPECT_EQ(read("host0/sys/class/infiniband/mlx5_0/ports/1/phys_state"), "2: Polling\n");
}

TEST_F(Sysfs, UpdateChangesWhatDiffersOnly) {
  write(default_fabric());
  std::string port = "host0/sys/class/infiniband/mlx5_0/ports/1/";
  auto inode = [&](const char* name) {
    struct stat info {};
    return ::stat((dir_ / ("hosts/" + port + name)).c_str(), &info) == 0 ? info.st_ino : 0;
  };
  ino_t rate_before = inode("rate");
  ino_t state_before = inode("state");
  PortStatus before = initial_status(fabric_, fabric_.hosts[0].hcas[0].ports[0]);
  PortStatus now = before;
  now.state = ipc::PortState::down;
  now.phys_state = PhysState::disabled;
  now.lid = 0x1234;
  now.lmc = 3;
  now.pkeys = {0x8001, 0x7fff};
  now.gids.push_back({Gid{{1, 2, 3}}, GidType::ib});
  ASSERT_TRUE(update_port(dir_.path(), fabric_, {0, 0, 0}, before, now));
  expect_files(port, {{"state", "1: DOWN\n"},
                      {"phys_state", "3: Disabled\n"},
                      {"lid", "0x1234\n"},
                      {"lid_mask_count", "3\n"},
                      {"pkeys/0", "0x8001\n"},
                      {"pkeys/1", "0x7fff\n"},
                      {"gids/1", "0102:0300:0000:0000:0000:0000:0000:0000\n"},
                      {"gid_attrs/types/1", "IB/RoCE v1\n"}});
  EXPECT_EQ(inode("rate"), rate_before);
  EXPECT_NE(inode("state"), state_before) << "replaced, not written into: a reader sees the old text or the new";
  ASSERT_TRUE(update_port(dir_.path(), fabric_, {0, 0, 0}, now, before));
  EXPECT_EQ(list(port + "gids").size(), 1U);
  EXPECT_EQ(list(port + "gid_attrs/types").size(), 1U);
  EXPECT_EQ(list(port + "pkeys").size(), 1U);
  EXPECT_EQ(read(port + "pkeys/0"), "0xffff\n");
  EXPECT_EQ(read("host1/sys/class/infiniband/mlx5_0/ports/1/state"), "4: ACTIVE\n") << "the other host's port stays";
}

TEST_F(Sysfs, ATreeShowsThePortsAsTheyAre) {
  fabric_ = *parse("{hosts: [{hcas: [{ports: 2}, mlx5_1]}]}", "f");
  std::vector<PortStatus> ports = initial(0);
  ASSERT_EQ(ports.size(), 3U);
  for (u16 i = 0; i < 3; ++i) ports[i].lid = static_cast<u16>(0x10 + i);
  ASSERT_TRUE(write_host_tree(dir_.path(), fabric_, 0, ports));
  std::string devices = "host0/sys/class/infiniband/";
  expect_files(devices,
               {{"mlx5_0/ports/1/lid", "0x10\n"}, {"mlx5_0/ports/2/lid", "0x11\n"}, {"mlx5_1/ports/1/lid", "0x12\n"}});
}

TEST_F(Sysfs, ATreeIsThereWholeOrNotAtAll) {
  write(default_fabric());
  auto again = write_host(0);
  ASSERT_FALSE(again);
  EXPECT_EQ(to_int(again.error()), EEXIST) << "the one that is there may have been changed since";
  EXPECT_THAT(list(""), UnorderedElementsAre("host0", "host1")) << "nothing is left beside the trees";
  fs::remove_all(dir_ / "hosts/host0");
  fs::create_directories(dir_ / "hosts/.new/hosts/host0/sys/class/infiniband/of_a_try_that_failed");
  ASSERT_TRUE(write_host(0));
  EXPECT_THAT(list("host0/sys/class/infiniband"), UnorderedElementsAre("mlx5_0"));
}

TEST_F(Sysfs, FailureIsReported) {
  fabric_ = default_fabric();
  auto written = write_host_tree(dir_ / "none", fabric_, 0, initial(0));
  ASSERT_FALSE(written);
  EXPECT_EQ(to_int(written.error()), ENOENT);
}

TEST(SysfsValues, FirstPortWithoutASwitchCarriesTheSubnetManager) {
  Fabric fabric = *parse("{hosts: 2, switches: [], cables: [[host0/mlx5_0/1, host1/mlx5_0/1]]}", "f");
  EXPECT_TRUE(initial_status(fabric, fabric.hosts[0].hcas[0].ports[0]).capabilities & IBV_PORT_SM);
  EXPECT_FALSE(initial_status(fabric, fabric.hosts[1].hcas[0].ports[0]).capabilities & IBV_PORT_SM);
}

}  // namespace
}  // namespace softib::fabric
