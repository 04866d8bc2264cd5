// Rules of the hosts' keeper that need no rights: names, addresses in use, remedies.
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "hosts/address_report.h"
#include "hosts/closet.h"
#include "hosts/interface_files.h"
#include "hosts/netlink.h"
#include "hosts/place.h"
#include "hosts/rights.h"
#include "ipc/places.h"

namespace softib::hosts {
namespace {

using testing::HasSubstr;

TEST(LinkName, FitsAnInterface) {
  EXPECT_EQ(link_name("default"), "sib-default");
  EXPECT_EQ(link_name("elevenchars"), "sib-elevenchars");
  const std::string one = link_name("a-very-long-name-1");
  const std::string other = link_name("a-very-long-name-2");
  EXPECT_EQ(one.size(), 15U);
  EXPECT_EQ(other.size(), 15U);
  EXPECT_NE(one, other);
  EXPECT_LE(port_name(100'000).size(), 15U);
}

TEST(Addresses, AreOfThePortBehindTheInterface) {
  EXPECT_EQ(port_interface("ib0=mlx5_0/1,mode=connected,address=10.0.0.1/16"), (PortInterface{"ib0", "mlx5_0", 1}));
  EXPECT_EQ(port_interface("ib12=mlx5_3/2"), (PortInterface{"ib12", "mlx5_3", 2}));
  for (const char* text : {"", "ib0", "ib0=mlx5_0", "ib0=mlx5_0/", "ib0=mlx5_0/x", "a/b=c"})
    EXPECT_FALSE(port_interface(text)) << text;
  EXPECT_EQ(partition_of("ib1", "ib1"), 0);
  EXPECT_EQ(partition_of("ib1.8001", "ib1"), 0x8001);
  for (const char* other : {"ib", "ib11", "ib10.8001", "ib1.80010", "ib1.801", "ib1.80g1", "ib1-8001", "eth0"})
    EXPECT_FALSE(partition_of(other, "ib1")) << other;
}

TEST(Interfaces, AreOfTheModeThatTheirServiceIsToldOf) {
  EXPECT_EQ(mode_of("ib0=mlx5_0/1,address=10.0.0.1/16"), "datagram");
  EXPECT_EQ(mode_of("ib0=mlx5_0/1,mode=connected,mtu=4000,address=10.0.0.1/16"), "connected");
}

TEST(Networks, OverlapWhereOneHoldsTheOther) {
  constexpr u32 hosts = 10U << 24 | 255U << 16;
  constexpr Ipv4Network ours{hosts | 0xfffe, 16};
  EXPECT_TRUE(overlap(ours, {hosts | 1, 16}));
  EXPECT_TRUE(overlap(ours, {hosts | 0x0501, 24}));
  EXPECT_TRUE(overlap(ours, {10U << 24 | 1, 8}));
  EXPECT_TRUE(overlap({hosts | 1, 32}, ours));
  EXPECT_TRUE(overlap(ours, {0, 0}));
  EXPECT_FALSE(overlap(ours, {10U << 24 | 254U << 16, 16}));
  EXPECT_FALSE(overlap(ours, {192U << 24, 8}));
}

TEST(Networks, HoldARangeAndNothingElse) {
  const std::vector<Ipv4Network> seven{{1, 32}, {2, 31}, {4, 30}};
  EXPECT_EQ(networks_of(1, 7), seven);
  EXPECT_EQ(networks_of(0, 0xffff'ffff), (std::vector<Ipv4Network>{{0, 0}}));
  EXPECT_EQ(networks_of(0xffff'ffff, 0xffff'ffff), (std::vector<Ipv4Network>{{0xffff'ffff, 32}}));
  for (u32 last = 1; last < 600; ++last) {
    u32 next = 1;
    for (const Ipv4Network& network : networks_of(1, last)) {
      EXPECT_EQ(network.address, next);
      next += 1U << (32 - network.prefix);
    }
    EXPECT_EQ(next, last + 1);
  }
}

TEST(Networks, NameServersInThem) {
  const std::vector<Ipv4Network> hosts = networks_of(10U << 24 | 255U << 16 | 1, 10U << 24 | 255U << 16 | 2);
  const std::string text = "# nameserver 10.255.0.1\nsearch 10.255.0.1\nnameserver 10.255.255.53\nnameserver fd00::1\n";
  EXPECT_EQ(name_server_in(text, hosts), std::nullopt);
  EXPECT_EQ(name_server_in(text + "nameserver\t10.255.0.2 ", hosts), 10U << 24 | 255U << 16 | 2);
  EXPECT_EQ(name_server_in("", hosts), std::nullopt);
}

class Remedy : public testing::Test {
 protected:
  Remedy() : proc_(testing::TempDir() + "proc-" + std::to_string(::getpid())) {
    std::filesystem::create_directories(proc_ + "/sys/kernel");
  }
  ~Remedy() override { std::filesystem::remove_all(proc_); }
  void set(const std::string& name, const char* value) {
    std::ofstream(proc_ + "/sys/kernel/" + name) << value << "\n";
  }
  std::string proc_;
};

TEST_F(Remedy, NamesTheSwitchThatIsOff) {
  set("unprivileged_userns_clone", "0");
  EXPECT_THAT(remedy_for(EPERM, proc_), HasSubstr("sysctl kernel.unprivileged_userns_clone=1"));
  set("unprivileged_userns_clone", "1");
  set("apparmor_restrict_unprivileged_userns", "1");
  EXPECT_THAT(remedy_for(EACCES, proc_), HasSubstr("sysctl kernel.apparmor_restrict_unprivileged_userns=0"));
  set("apparmor_restrict_unprivileged_userns", "0");
  EXPECT_THAT(remedy_for(EPERM, proc_), HasSubstr("--privileged"));
}

TEST_F(Remedy, NamesLimitsThatAreReached) { EXPECT_THAT(remedy_for(ENOSPC, proc_), HasSubstr("max_user_namespaces")); }

TEST_F(Remedy, IsSilentWhereItKnowsNone) { EXPECT_EQ(remedy_for(ENOMEM, proc_), ""); }

TEST(Texts, AreCutAndEnded) {
  char field[4] = {'x', 'x', 'x', 'x'};
  ipc::put_text(field, "abcdef");
  EXPECT_STREQ(field, "abc");
  ipc::put_text(field, "");
  EXPECT_EQ(ipc::get_text(field), "");
}

TEST(Places, AProgramInNoHostFindsNone) {
  char room[64];
  EXPECT_EQ(ipc::host_of_place("/nonexistent", room), "");
}

}  // namespace
}  // namespace softib::hosts
