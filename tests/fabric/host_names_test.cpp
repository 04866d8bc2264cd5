// Names and addresses of hosts, and whether they have namespaces, as fabric files and /etc/hosts have them.
#include "fabric/host_names.h"

#include <gmock/gmock.h>

#include "fabric/addresses.h"
#include "fabric/interfaces.h"

namespace softib::fabric {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

Fabric parsed(std::string_view text) {
  auto fabric = parse(text, "t.yaml");
  EXPECT_TRUE(fabric) << (fabric ? "" : fabric.error().text);
  return fabric.value_or(default_fabric());
}

TEST(HostNames, EveryHostAndPortHasALine) {
  const Fabric fabric = parsed("{hosts: [alice, {name: bob, hcas: 2}]}");
  EXPECT_EQ(hosts_text(fabric, "desk"),
            "127.0.0.1       localhost\n"
            "::1             localhost ip6-localhost ip6-loopback\n"
            "10.255.0.1      alice\n"
            "10.0.0.1        alice-ib0\n"
            "fd53:6f66:7449:42::1 alice-ip6\n"
            "10.255.0.2      bob\n"
            "10.0.0.2        bob-ib0\n"
            "10.1.0.2        bob-ib1\n"
            "fd53:6f66:7449:42::2 bob-ip6\n"
            "10.255.255.254  desk\n");
}

TEST(HostNames, AMachineOfAHostsNameStaysOut) {
  EXPECT_THAT(hosts_text(parsed("hosts: 2"), "host1"), Not(HasSubstr("10.255.255.254")));
  EXPECT_THAT(hosts_text(parsed("hosts: 2"), ""), Not(HasSubstr("10.255.255.254")));
}

TEST(HostNames, EthernetPortsAreCalledSo) {
  EXPECT_THAT(hosts_text(parsed("{link_layer: ethernet, hosts: 1}"), ""), HasSubstr("10.0.0.1        host0-roce0\n"));
}

TEST(HostNames, PlainHostsAreOnLoopback) {
  EXPECT_EQ(plain_hosts_text(parsed("{hosts: 2, hcas: 2}")),
            "127.64.0.1      host0 host0-ib0\n127.65.0.1      host0-ib1\n"
            "127.64.0.2      host1 host1-ib0\n127.65.0.2      host1-ib1\n");
}

TEST(HostNames, AnAddressOfTheFileCounts) {
  const Fabric fabric = parsed("{hosts: [{name: a, hcas: [{ports: [{address: 192.168.1.7}]}]}]}");
  EXPECT_THAT(hosts_text(fabric, ""), HasSubstr("192.168.1.7     a-ib0\n"));
}

TEST(HostNames, HostNumbersPassOneByte) {
  EXPECT_EQ(ipv4_text(ethernet_address(299)), "10.255.1.44");
  EXPECT_EQ(ipv6_text(ethernet_address6(299)), "fd53:6f66:7449:42::12c");
}

TEST(Namespaces, AreAWordOrAMap) {
  EXPECT_EQ(parsed("hosts: 1").namespaces, Namespaces::automatic);
  EXPECT_EQ(parsed("{namespaces: on, hosts: 1}").namespaces, Namespaces::on);
  EXPECT_EQ(parsed("{namespaces: off, hosts: 1}").namespaces, Namespaces::off);
  const Fabric fabric = parsed("{namespaces: {use: on, pid: true}, hosts: 1}");
  EXPECT_EQ(fabric.namespaces, Namespaces::on);
  EXPECT_TRUE(fabric.own_pids);
  EXPECT_EQ(parsed("{namespaces: {pid: true}, hosts: 1}").namespaces, Namespaces::automatic);
}

TEST(Namespaces, SurviveTheFile) {
  for (const char* text : {"hosts: 1", "{namespaces: on, hosts: 1}", "{namespaces: off, hosts: 1}",
                           "{namespaces: {pid: true}, hosts: 1}", "{namespaces: {use: off, pid: true}, hosts: 1}"}) {
    const Fabric fabric = parsed(text);
    EXPECT_EQ(parsed(to_yaml(fabric)), fabric) << text;
  }
}

TEST(Namespaces, ErrorsNameTheLine) {
  EXPECT_EQ(parse("hosts: 1\nnamespaces: maybe\n", "t.yaml").error().text,
            "t.yaml:2: 'maybe' is no use of namespaces; known are: auto, on, off");
  EXPECT_THAT(parse("hosts: 1\nnamespaces: {uts: on}\n", "t.yaml").error().text,
              HasSubstr("t.yaml:2: unknown key 'uts' in namespaces"));
}

TEST(Ipoib, IsAWordOrAMap) {
  EXPECT_EQ(parsed("hosts: 1").ipoib, Ipoib{});
  EXPECT_EQ(parsed("{ipoib: connected, hosts: 1}").ipoib, (Ipoib{IpoibMode::connected, 0}));
  EXPECT_EQ(parsed("{ipoib: {mode: connected, mtu: 9000}, hosts: 1}").ipoib, (Ipoib{IpoibMode::connected, 9000}));
  EXPECT_EQ(parsed("{ipoib: {mtu: 1500}, hosts: 1}").ipoib, (Ipoib{IpoibMode::datagram, 1500}));
  for (const char* text : {"hosts: 1", "{ipoib: connected, hosts: 1}", "{ipoib: {mtu: 1500}, hosts: 1}",
                           "{ipoib: {mode: connected, mtu: 9000}, hosts: 1}"}) {
    const Fabric fabric = parsed(text);
    EXPECT_EQ(parsed(to_yaml(fabric)), fabric) << text;
  }
}

TEST(Ipoib, ErrorsNameTheLine) {
  const auto error = [](const char* text) { return parse(text, "t.yaml").error().text; };
  EXPECT_EQ(error("hosts: 1\nipoib: fast\n"), "t.yaml:2: 'fast' is no mode of IPoIB; known are: datagram, connected");
  EXPECT_THAT(error("hosts: 1\nipoib: {mtu: 65520}\n"), HasSubstr("t.yaml:2: "));
  EXPECT_THAT(error("hosts: 1\nipoib: {mode: connected, mtu: 65521}\n"), HasSubstr("65520"));
  EXPECT_THAT(error("hosts: 1\nipoib: {mtu: 100}\n"), HasSubstr("1280"));
  EXPECT_THAT(error("hosts: 1\nipoib: {speed: 1}\n"), HasSubstr("unknown key 'speed' in ipoib"));
  EXPECT_EQ(error("link_layer: ethernet\nhosts: 1\nipoib: connected\n"),
            "t.yaml:3: on Ethernet there is no IPoIB; leave this out");
}

TEST(Ipoib, EachPortHasAnInterface) {
  const Fabric fabric = parsed("{ipoib: connected, hosts: [a, {name: b, hcas: [{ports: 2}, {}]}]}");
  EXPECT_THAT(ipoib_interfaces(fabric, 0),
              ElementsAre("ib0=mlx5_0/1,mode=connected,address=10.0.0.1/16,address=fd53:4942::1/64"));
  EXPECT_THAT(ipoib_interfaces(fabric, 1),
              ElementsAre("ib0=mlx5_0/1,mode=connected,address=10.0.0.2/16,address=fd53:4942::2/64",
                          "ib1=mlx5_0/2,mode=connected,address=10.1.0.2/16,address=fd53:4942:1::2/64",
                          "ib2=mlx5_1/1,mode=connected,address=10.2.0.2/16,address=fd53:4942:2::2/64"));
  EXPECT_THAT(ipoib_interfaces(parsed("{ipoib: {mtu: 1500}, hosts: 1}"), 0),
              ElementsAre("ib0=mlx5_0/1,mtu=1500,address=10.0.0.1/16,address=fd53:4942::1/64"));
  EXPECT_THAT(ipoib_interfaces(parsed("{link_layer: ethernet, hosts: 1}"), 0), IsEmpty());
}

}  // namespace
}  // namespace softib::fabric
