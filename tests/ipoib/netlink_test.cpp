#include "ipoib/netlink.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ipoib/tun.h"

namespace softib::ipoib {
namespace {

constexpr const char* igmp =
    "Idx\tDevice    : Count Querier\tGroup    Users Timer\tReporter\n"
    "1\tlo        :     1      V3\n"
    "\t\t\t\t010000E0     1 0:00000000\t\t0\n"
    "5\tib0       :     2      V3\n"
    "\t\t\t\t030201EF     1 0:00000000\t\t0\n"
    "\t\t\t\t010000E0     1 0:00000000\t\t0\n";
constexpr const char* igmp6 =
    "1    lo              ff020000000000000000000000000001     1 0000000C 0\n"
    "5    ib0             ff0200000000000000000001ff000001     1 00000004 0\n"
    "7    ib0.8001        ff020000000000000000000000000002     1 00000004 0\n";

TEST(Groups, AreReadOfOneInterface) {
  std::vector<std::string> texts;
  for (const Ip& ip : parse_groups("ib0", igmp, igmp6)) texts.push_back(to_text(ip));
  EXPECT_EQ(texts, (std::vector<std::string>{"239.1.2.3", "224.0.0.1", "ff02::1:ff00:1"}));
  EXPECT_EQ(parse_groups("ib0.8001", igmp, igmp6).size(), 1U);
  EXPECT_TRUE(parse_groups("ib1", igmp, igmp6).empty());
  EXPECT_TRUE(parse_groups("ib0", "ib0\n\tzz\n\n", "1 ib0 ff02\n").empty());
}

// The loopback interface is there without any rights.
TEST(Netlink, TellsAddressesAndNextHops) {
  auto netlink = Netlink::open();
  ASSERT_TRUE(netlink);
  const auto addresses = netlink->addresses(1);
  ASSERT_TRUE(addresses);
  for (const Prefixed& one : *addresses) EXPECT_LE(one.prefix, one.ip.size() * 8);
  const Ip local = parse_ip("127.0.0.1").value();
  for (int again = 0; again < 3; ++again) {  // one question does not spoil the next
    const auto hop = netlink->next_hop(1, local);
    ASSERT_TRUE(hop) << to_int(hop.error());
    EXPECT_EQ(*hop, local);
    EXPECT_FALSE(netlink->next_hop(1'000'000, local));
    EXPECT_EQ(netlink->addresses(1), addresses);
  }
  EXPECT_EQ(netlink->is_about_to_send(1), false);
  EXPECT_FALSE(netlink->is_about_to_send(1'000'000));
  const auto refused = netlink->set_link(1'000'000, LinkSettings{});
  ASSERT_FALSE(refused);
}

// The exit statuses of what runs in a namespace of its own.
constexpr int all_sent = 0, one_was_lost = 1, no_rights = 2, failed = 3;

// As soon as an interface is said to send, a packet sent to it comes out: also right after the start, and after the
// carrier was gone for a moment.
int send_at_once(u32 round) {
  const std::string name = "t" + std::to_string(round);
  auto tun = Tun::open(name, -1);
  auto netlink = Netlink::open();
  if (!tun || !netlink) return tun ? failed : no_rights;
  LinkSettings up;
  up.up = true;
  const Ip own = parse_ip("10.9." + std::to_string(round) + ".1").value();
  if (!netlink->set_link(tun->index(), up) || !netlink->add_address(tun->index(), {own, 24})) return failed;
  const Fd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(9);
  to.sin_addr.s_addr = inet_addr(("10.9." + std::to_string(round) + ".2").c_str());
  std::vector<u8> room(2048);
  for (int time = 0; time < 3; ++time) {
    tun->set_carrier(true);
    while (netlink->is_about_to_send(tun->index()).value()) ::usleep(100);
    while (tun->read(room)) continue;  // reports of groups
    if (::sendto(socket.get(), "x", 1, 0, reinterpret_cast<sockaddr*>(&to), sizeof to) != 1) return failed;
    bool found = false;
    for (pollfd ready{tun->fd(), POLLIN, 0}; !found && ::poll(&ready, 1, 1000) == 1;)
      while (const auto size = tun->read(room)) found = found || *size == sizeof(VnetHeader) + 20 + 8 + 1;
    if (!found) return one_was_lost;
    tun->set_carrier(false);
  }
  return all_sent;
}

TEST(Netlink, WhatIsSaidToSendLosesNothing) {
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    if (::unshare(CLONE_NEWNET) != 0 && ::unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0) ::_exit(no_rights);
    // Namespaces that come and go hold the kernel's lock of all networks, so that carriers are noticed late.
    for (int neighbour = 0; neighbour < 2; ++neighbour) {
      if (::fork() != 0) continue;
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      while (::unshare(CLONE_NEWNET) == 0) continue;
      ::_exit(failed);
    }
    int status = all_sent;
    for (u32 round = 0; round < 20 && status == all_sent; ++round) status = send_at_once(round);
    ::_exit(status);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == no_rights) GTEST_SKIP() << "no right to make network namespaces or TUN devices here";
  EXPECT_EQ(WEXITSTATUS(status), all_sent);
}

}  // namespace
}  // namespace softib::ipoib
