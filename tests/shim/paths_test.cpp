#include "shim/paths.h"

#include <gtest/gtest.h>

#include <string>

namespace softib::shim {
namespace {

constexpr std::string_view root = "/run/softib/default/hosts/host0";

bool tree_has(const char* path) {
  std::string_view rest = path;
  return rest == "/run/softib/default/hosts/host0/sys/devices/pci0000:00/0000:01:00.0" ||
         rest == "/run/softib/default/hosts/host0/sys/bus/pci/devices/0000:01:00.0";
}

struct Case {
  const char* given;
  PathKind kind;
  const char* under_root;  // what follows the root, for ours
};

class Paths : public testing::TestWithParam<Case> {};

TEST_P(Paths, LeadWhereTheyShould) {
  PathBuffer out;
  Mapping mapping = PathMap(root, tree_has).map(GetParam().given, out);
  EXPECT_EQ(mapping.kind, GetParam().kind) << GetParam().given;
  if (!GetParam().under_root) return;
  EXPECT_EQ(std::string(out), std::string(root) + GetParam().under_root);
}

INSTANTIATE_TEST_SUITE_P(
    Rules, Paths,
    testing::Values(
        // whole folders, whether or not the tree has them
        Case{"/sys/class/infiniband", PathKind::tree, "/sys/class/infiniband"},
        Case{"/sys/class/infiniband/", PathKind::tree, "/sys/class/infiniband/"},
        Case{"/sys/class/infiniband/mlx5_0/ports/1/lid", PathKind::tree, "/sys/class/infiniband/mlx5_0/ports/1/lid"},
        Case{"/sys/class/infiniband_verbs/abi_version", PathKind::tree, "/sys/class/infiniband_verbs/abi_version"},
        Case{"/sys/class/infiniband_mad/umad0", PathKind::tree, "/sys/class/infiniband_mad/umad0"},
        Case{"/dev/infiniband", PathKind::tree, "/dev/infiniband"},
        Case{"/sys/class/misc/rdma_cm/abi_version", PathKind::tree, "/sys/class/misc/rdma_cm/abi_version"},
        Case{"/sys/class/misc/rdma_cm2", PathKind::plain, nullptr}, Case{"/sys/class/misc", PathKind::plain, nullptr},
        // device nodes
        Case{"/dev/infiniband/rdma_cm", PathKind::device, "/dev/infiniband/rdma_cm"},
        Case{"/dev/infiniband/rdma_cm0", PathKind::tree, "/dev/infiniband/rdma_cm0"},
        Case{"/dev/infiniband/uverbs0", PathKind::device, "/dev/infiniband/uverbs0"},
        Case{"/dev/infiniband/uverbs31", PathKind::device, "/dev/infiniband/uverbs31"},
        Case{"/dev/infiniband/uverbs", PathKind::tree, "/dev/infiniband/uverbs"},
        Case{"/dev/infiniband/uverbs0x", PathKind::tree, "/dev/infiniband/uverbs0x"},
        Case{"/dev/infiniband/uverbs99999999999", PathKind::tree, "/dev/infiniband/uverbs99999999999"},
        Case{"/dev/char/231:193", PathKind::device, "/dev/infiniband/uverbs1"},
        Case{"/dev/char/231:191", PathKind::plain, nullptr}, Case{"/dev/char/1:3", PathKind::plain, nullptr},
        // PCI devices of the tree, and those of the machine
        Case{"/sys/devices/pci0000:00/0000:01:00.0", PathKind::tree, "/sys/devices/pci0000:00/0000:01:00.0"},
        Case{"/sys/devices/pci0000:00/0000:01:00.0/vendor", PathKind::tree,
             "/sys/devices/pci0000:00/0000:01:00.0/vendor"},
        Case{"/sys/devices/pci0000:00/0000:00:1f.0/vendor", PathKind::plain, nullptr},
        Case{"/sys/devices/pci0000:00", PathKind::plain, nullptr},
        Case{"/sys/bus/pci/devices/0000:01:00.0/numa_node", PathKind::tree,
             "/sys/bus/pci/devices/0000:01:00.0/numa_node"},
        Case{"/sys/bus/pci/devices/0000:00:02.0", PathKind::plain, nullptr},
        Case{"/sys/bus/pci/devices/", PathKind::plain, nullptr},
        // spellings
        Case{"//sys///class/./infiniband/mlx5_0", PathKind::tree, "/sys/class/infiniband/mlx5_0"},
        Case{"/sys/class/net/../infiniband", PathKind::tree, "/sys/class/infiniband"},
        Case{"/tmp/../dev/infiniband/uverbs0", PathKind::device, "/dev/infiniband/uverbs0"},
        // below a link ".." means what the link says: left alone
        Case{"/sys/class/infiniband/mlx5_0/../..", PathKind::tree, "/sys/class/infiniband/mlx5_0/../.."},
        // neighbours
        Case{"/sys/class/net", PathKind::plain, nullptr}, Case{"/dev/infiniband2", PathKind::plain, nullptr},
        Case{"/sys", PathKind::plain, nullptr}, Case{"/", PathKind::plain, nullptr},
        Case{"/opt/sys/class/infiniband", PathKind::plain, nullptr}, Case{"", PathKind::plain, nullptr},
        // a program that already stands in the tree
        Case{"/run/softib/default/hosts/host0/dev/infiniband/uverbs1", PathKind::device, "/dev/infiniband/uverbs1"},
        Case{"/run/softib/default/hosts/host0/sys/class/net", PathKind::tree, "/sys/class/net"},
        Case{"/run/softib/default/hosts/host01/sys", PathKind::plain, nullptr}));

// `ls -la` asks for these; the machine may have no such folder to climb out of.
TEST(PathMap, OutOfAFolderOfTheTree) {
  PathBuffer out;
  for (const auto& [given, leads_to] : {std::pair{"/sys/class/infiniband/..", "/sys/class"},
                                        {"/sys/class/infiniband/../net/eth0", "/sys/class/net/eth0"},
                                        {"/dev/infiniband/..", "/dev"}}) {
    EXPECT_EQ(PathMap(root, tree_has).map(given, out).kind, PathKind::tree);
    EXPECT_STREQ(out, leads_to);
  }
}

TEST(PathMap, DeviceNumberComesOut) {
  PathBuffer out;
  EXPECT_EQ(PathMap(root, tree_has).map("/dev/infiniband/uverbs12", out).device, (DeviceNode{DeviceKind::uverbs, 12}));
  EXPECT_EQ(PathMap(root, tree_has).map("/dev/char/231:200", out).device, (DeviceNode{DeviceKind::uverbs, 8}));
  EXPECT_EQ(PathMap(root, tree_has).map("/dev/infiniband/umad3", out).device, (DeviceNode{DeviceKind::umad, 3}));
  EXPECT_EQ(PathMap(root, tree_has).map("/dev/char/231:65", out).device, (DeviceNode{DeviceKind::issm, 1}));
}

TEST(PathMap, OverlongPathsAreLeftToTheKernel) {
  PathBuffer out;
  std::string path = "/sys/class/infiniband/" + std::string(PATH_MAX, 'x');
  EXPECT_EQ(PathMap(root, tree_has).map(path, out).kind, PathKind::plain);
  path.resize(PATH_MAX - 1);
  EXPECT_EQ(PathMap(root, tree_has).map(path, out).kind, PathKind::tree);
  EXPECT_EQ(std::string(out).size(), root.size() + path.size());
}

TEST(PathMap, RootNeverPassesTheBuffer) {
  std::string longest = "/" + std::string(max_root - 2, 'r');
  std::string path = "/sys/class/infiniband/";
  path.resize(PATH_MAX - 1, 'x');
  PathBuffer out;
  EXPECT_EQ(PathMap(longest, tree_has).map(path, out).kind, PathKind::tree);
}

TEST(Normalise, SaysWhenThereIsNoRoom) {
  char out[8];
  EXPECT_EQ(normalise("/abc/de", out, sizeof out), 7U);
  EXPECT_EQ(normalise("/abc/def", out, sizeof out), 0U);
}

TEST(StripRoot, GivesTheProgramsName) {
  EXPECT_EQ(strip_root("/run/softib/default/hosts/host0/sys/devices/x", root), "/sys/devices/x");
  EXPECT_EQ(strip_root("/run/softib/default/hosts/host0/dev", root), "/dev");
  EXPECT_FALSE(strip_root("/run/softib/default/hosts/host0", root));
  EXPECT_FALSE(strip_root("/run/softib/default/hosts/host0/system", root));
  EXPECT_FALSE(strip_root("/sys/class/infiniband", root));
}

TEST(Counters, AreNamedByTheEndsOfTheirRealPaths) {
  auto place = counter_place(
      "/run/softib/default/hosts/host0/sys/devices/pci0000:00/0000:10:00.0/infiniband/mlx5_3/"
      "ports/2/counters/VL15_dropped");
  ASSERT_TRUE(place);
  EXPECT_EQ(place->device, "mlx5_3");
  EXPECT_EQ(place->port, 2U);
  EXPECT_EQ(place->counter, ipc::PortCounter::vl15_dropped);
  for (const char* other :
       {"", "port_xmit_data", "/counters/port_xmit_data", "/x/infiniband/mlx5_3/ports/2/counters/no_such",
        "/x/infiniband/mlx5_3/ports/2/counters/", "/x/infiniband/mlx5_3/ports/two/counters/port_xmit_data",
        "/x/infiniband/mlx5_3/ports/2/hw_counters/port_xmit_data",
        "/x/infiniband/mlx5_3/ports/2/hw_counters/../counters/port_xmit_data",
        "/x/net/mlx5_3/ports/2/counters/port_xmit_data"})
    EXPECT_FALSE(counter_place(other)) << other;
}

TEST(Counters, EachNameStandsForItself) {
  for (u32 i = 0; i < ipc::port_counter_names.size(); ++i)
    EXPECT_EQ(ipc::port_counter_named(ipc::port_counter_names[i]), static_cast<ipc::PortCounter>(i));
  EXPECT_TRUE(names_counter("port_xmit_data"));
  EXPECT_TRUE(names_counter("../counters/port_xmit_data"));
  EXPECT_FALSE(names_counter("port_xmit_data/"));
  EXPECT_FALSE(names_counter("xport_xmit_data"));
  EXPECT_TRUE(may_lead_into_tree("port_xmit_data")) << "after a cd into the folder";
  EXPECT_FALSE(may_lead_into_tree("results/output.txt"));
}

}  // namespace
}  // namespace softib::shim
