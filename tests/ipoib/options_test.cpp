#include "ipoib/options.h"

#include <gtest/gtest.h>

namespace softib::ipoib {
namespace {

tl::expected<Options, Ending> parse(std::vector<const char*> words) {
  words.insert(words.begin(), "softib-ipoib");
  return parse_command_line(static_cast<int>(words.size()), words.data());
}

TEST(Options, AllOfThemAreRead) {
  const auto options =
      parse({"--interface", "ib0=mlx5_0/1", "--interface",
             "ib1.8001=mlx5_1/2,pkey=0x1,mode=connected,mtu=9000,address=10.0.0.1/16,address=fd00::1/64", "--tun-fd",
             "ib0=5", "--ready-fd", "7"});
  ASSERT_TRUE(options) << options.error().text;
  ASSERT_EQ(options->interfaces.size(), 2U);
  const auto& [one, two] = std::tie(options->interfaces[0], options->interfaces[1]);
  EXPECT_EQ(one.device, "mlx5_0");
  EXPECT_EQ(one.pkey, 0);
  EXPECT_EQ(one.mode, Mode::datagram);
  EXPECT_EQ(one.tun_fd, 5);
  EXPECT_EQ(two.name, "ib1.8001");
  EXPECT_EQ(two.port, 2U);
  EXPECT_EQ(two.pkey, 0x8001);
  EXPECT_EQ(two.mode, Mode::connected);
  EXPECT_EQ(two.mtu, 9000U);
  EXPECT_EQ(two.addresses.size(), 2U);
  EXPECT_EQ(two.tun_fd, -1);
  EXPECT_EQ(options->ready_fd, 7);
}

TEST(Options, ChildrenComeUnaskedWhereNoInterfaceIsNamed) {
  EXPECT_TRUE(parse({})->children);
  EXPECT_FALSE(parse({"--interface", "ib0=mlx5_0"})->children);
  EXPECT_TRUE(parse({"--interface", "ib0=mlx5_0", "--children"})->children);
  EXPECT_FALSE(parse({"--interface", "ib0=mlx5_0"})->wait);
  EXPECT_TRUE(parse({"--interface", "ib0=mlx5_0", "--wait"})->wait);
}

TEST(Options, AChildIsLikeItsParentButForTheAddresses) {
  InterfaceOptions parent = *parse_interface("ib1=mlx5_2/3,mode=connected,mtu=9000,address=10.0.0.1/16");
  parent.tun_fd = 5;
  const auto child = child_of(parent, 0x1);
  ASSERT_TRUE(child);
  EXPECT_EQ(child->name, "ib1.8001");
  EXPECT_EQ(child->pkey, 0x8001);
  EXPECT_EQ(child->device, "mlx5_2");
  EXPECT_EQ(child->port, 3U);
  EXPECT_EQ(child->mode, Mode::connected);
  EXPECT_EQ(child->mtu, 9000U);
  EXPECT_TRUE(child->addresses.empty());
  EXPECT_EQ(child->tun_fd, -1);
  parent.name = "as-long-as-may";
  EXPECT_FALSE(child_of(parent, 0x1));
}

TEST(Options, MistakesAreNamed) {
  const std::pair<const char*, const char*> wrong[] = {
      {"ib0", "NAME=DEVICE/PORT"},
      {"=mlx5_0", "name"},
      {"a/b=mlx5_0", "name"},
      {"seventeen-letters=mlx5_0", "name"},
      {"ib0=", "no device"},
      {"ib0=mlx5_0/0", "port number"},
      {"ib0=mlx5_0/300", "port number"},
      {"ib0=mlx5_0,speed=fast", "'speed'"},
      {"ib0=mlx5_0,mode=cm", "datagram"},
      {"ib0=mlx5_0,mtu=65521", "mtu"},
      {"ib0=mlx5_0,mtu=67", "mtu"},
      {"ib0=mlx5_0,pkey=0x8000", "P_Key"},
      {"ib0=mlx5_0,pkey=0x10000", "P_Key"},
      {"ib0=mlx5_0,address=10.0.0.300/16", "address"},
      {"ib0=mlx5_0,address=224.0.0.1/4", "address"},
      {"ib0=mlx5_0,", "OPTION=VALUE"},
  };
  for (const auto& [text, told] : wrong) {
    const auto options = parse({"--interface", text});
    ASSERT_FALSE(options) << text;
    EXPECT_EQ(options.error().status, 2);
    EXPECT_NE(options.error().text.find(told), std::string::npos) << options.error().text;
  }
  EXPECT_FALSE(parse({"--interface", "ib0=mlx5_0", "--interface", "ib0=mlx5_1"}));
  EXPECT_FALSE(parse({"--interface", "ib0=mlx5_0", "--tun-fd", "ib1=3"}));
  EXPECT_FALSE(parse({"--interface", "ib0=mlx5_0", "--tun-fd", "ib0=x"}));
  EXPECT_FALSE(parse({"--unknown"}));
  const auto help = parse({"--help"});
  ASSERT_FALSE(help);
  EXPECT_EQ(help.error().status, 0);
}

}  // namespace
}  // namespace softib::ipoib
