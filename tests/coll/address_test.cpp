#include "coll/net/address.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace softib::coll::test {

namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

const std::vector<Interface> some_interfaces{
    {"lo", *Address::numeric("127.0.0.1"), 8},     {"docker0", *Address::numeric("172.17.0.1"), 16},
    {"eth0", *Address::numeric("10.0.0.5"), 24},   {"eth1", *Address::numeric("10.1.0.5"), 24},
    {"ib0", *Address::numeric("192.168.7.5"), 24}, {"lo", *Address::numeric("::1"), 128},
    {"eth0", *Address::numeric("fd00::5"), 64},
};

std::string chosen(const Environment& environment, std::optional<Address> near = {},
                   const std::vector<Interface>& interfaces = some_interfaces) {
  const auto interface = choose_interface(environment, near, interfaces);
  return interface ? interface->name + " " + interface->address.host() : interface.error().text;
}

Environment with_names(std::string_view names) {
  Environment environment;
  environment.socket_ifname = *NameFilter::parse(names);
  return environment;
}

std::vector<Interface> all_but(std::initializer_list<std::string_view> names) {
  std::vector<Interface> left;
  for (const Interface& interface : some_interfaces)
    if (std::find(names.begin(), names.end(), interface.name) == names.end()) left.push_back(interface);
  return left;
}

TEST(Interfaces, InfiniBandFirstLoopbackLast) {
  EXPECT_EQ(chosen({}), "ib0 192.168.7.5");
  EXPECT_EQ(chosen({}, {}, all_but({"ib0"})), "eth0 10.0.0.5");
  EXPECT_EQ(chosen({}, {}, all_but({"ib0", "eth0", "eth1"})), "docker0 172.17.0.1");
  EXPECT_EQ(chosen({}, {}, all_but({"ib0", "eth0", "eth1", "docker0"})), "lo 127.0.0.1");
}

TEST(Interfaces, TheSubnetOfTheMeetingComesBeforeThat) {
  EXPECT_EQ(chosen({}, Address::numeric("10.1.0.77", 4000)), "eth1 10.1.0.5");
  EXPECT_EQ(chosen({}, Address::numeric("fd00::77")), "eth0 fd00::5");
  EXPECT_EQ(chosen({}, Address::numeric("8.8.8.8")), "ib0 192.168.7.5");
}

TEST(Interfaces, TheVariableComesBeforeAll) {
  EXPECT_EQ(chosen(with_names("eth")), "eth0 10.0.0.5");
  EXPECT_EQ(chosen(with_names("docker,eth")), "docker0 172.17.0.1");
  EXPECT_EQ(chosen(with_names("=eth1"), Address::numeric("10.0.0.77")), "eth1 10.1.0.5");
  EXPECT_EQ(chosen(with_names("^ib,eth0")), "eth1 10.1.0.5");
}

// Those by which a meeting is reached from anywhere.
TEST(Interfaces, SeveralLeadToOneMeeting) {
  const auto all = [](const Environment& environment, const std::vector<Interface>& interfaces = some_interfaces,
                      std::size_t most = 5) {
    std::string text;
    const auto chosen = choose_interfaces(environment, {}, interfaces, most);
    for (const Interface& interface : *chosen) text += interface.name + " " + interface.address.host() + "; ";
    return text;
  };
  EXPECT_EQ(all({}), "ib0 192.168.7.5; eth0 10.0.0.5; eth1 10.1.0.5; eth0 fd00::5; ");
  EXPECT_EQ(all({}, some_interfaces, 2), "ib0 192.168.7.5; eth0 10.0.0.5; ");
  EXPECT_EQ(all({}, all_but({"ib0", "eth0", "eth1"})), "docker0 172.17.0.1; ") << "loopback is another one everywhere";
  std::vector<Interface> rails = some_interfaces;
  for (const char* name : {"ib1", "ib2", "ib3", "ib4"}) rails.push_back({name, *Address::numeric("192.168.8.5"), 24});
  EXPECT_EQ(all({}, rails), all({})) << "one stands for all of InfiniBand";
  EXPECT_EQ(all(with_names("docker,eth1")), "docker0 172.17.0.1; eth1 10.1.0.5; ");
}

TEST(Interfaces, OfTheFamilyThatIsAskedFor) {
  Environment environment;
  environment.socket_family = SocketFamily::ipv6;
  EXPECT_EQ(chosen(environment), "eth0 fd00::5");
  environment.socket_family = SocketFamily::ipv4;
  EXPECT_EQ(chosen(environment, Address::numeric("fd00::77")), "ib0 192.168.7.5");
}

TEST(Interfaces, WhereNoneFitsTheTextSaysWhatThereIs) {
  EXPECT_THAT(chosen(with_names("wlan")), AllOf(HasSubstr("SOFTIB_SOCKET_IFNAME"), HasSubstr("eth0 (10.0.0.5)")));
  EXPECT_THAT(chosen({}, {}, {}), HasSubstr("no interface"));
}

TEST(Address, TextsAndSubnets) {
  EXPECT_EQ(Address::numeric("10.0.0.1", 80)->text(), "10.0.0.1:80");
  EXPECT_EQ(Address::numeric("fd00::1", 80)->text(), "[fd00::1]:80");
  EXPECT_FALSE(Address::numeric("host0"));
  EXPECT_EQ(Address::resolve("[fd00::1]:80")->text(), "[fd00::1]:80");
  EXPECT_EQ(Address::resolve("127.0.0.1:80")->text(), "127.0.0.1:80");
  EXPECT_FALSE(Address::resolve("127.0.0.1"));
  const auto address = *Address::numeric("10.0.3.1");
  EXPECT_TRUE(address.in_subnet_of(*Address::numeric("10.0.2.9"), 23));
  EXPECT_FALSE(address.in_subnet_of(*Address::numeric("10.0.2.9"), 24));
  EXPECT_TRUE(address.in_subnet_of(*Address::numeric("99.9.9.9"), 0));
  EXPECT_FALSE(address.in_subnet_of(*Address::numeric("::1"), 0));
}

}  // namespace

}  // namespace softib::coll::test
