#include "ipoib/netlink.h"

#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <netlink/attr.h>
#include <netlink/msg.h>
#include <sys/socket.h>

#include <charconv>
#include <fstream>
#include <sstream>

namespace softib::ipoib {

namespace {

int number_of(Family family) { return family == Family::v4 ? AF_INET : AF_INET6; }

template <typename Body>
rtnl::Message request(int type, Body body) {
  rtnl::Message message(nlmsg_alloc_simple(type, 0));
  if (message && nlmsg_append(message.get(), &body, sizeof body, NLMSG_ALIGNTO) < 0) message.reset();
  return message;
}

template <std::size_t size>
std::optional<Ip> ip_in(const nlattr* attribute, Family family, std::size_t at = 0) {
  if (!attribute || static_cast<std::size_t>(nla_len(attribute)) != at + size) return std::nullopt;
  return make_ip(family, static_cast<const u8*>(nla_data(attribute)) + at);
}

}  // namespace

Result<Netlink> Netlink::open() {
  auto socket = rtnl::connect();
  if (!socket) return fail(socket.error());
  Netlink netlink;
  netlink.socket_ = std::move(*socket);
  return netlink;
}

// By hand: libnl-route sets no limit of segments.
Result<void> Netlink::set_link(u32 index, const LinkSettings& settings) {
  ifinfomsg body{};
  body.ifi_index = static_cast<int>(index);
  if (settings.up) {
    body.ifi_change = IFF_UP;
    body.ifi_flags = *settings.up ? static_cast<u32>(IFF_UP) : 0U;
  }
  rtnl::Message message = request(RTM_NEWLINK, body);
  if (!message) return fail(ENOMEM);
  if (settings.mtu) nla_put_u32(message.get(), IFLA_MTU, *settings.mtu);
  if (settings.most_segments) nla_put_u32(message.get(), IFLA_GSO_MAX_SEGS, *settings.most_segments);
  if (settings.broadcast) nla_put(message.get(), IFLA_BROADCAST, HardwareAddress::size, settings.broadcast->data());
  if (settings.no_generated_address) {
    nlattr* const families = nla_nest_start(message.get(), IFLA_AF_SPEC);
    nlattr* const v6 = nla_nest_start(message.get(), AF_INET6);
    nla_put_u8(message.get(), IFLA_INET6_ADDR_GEN_MODE, IN6_ADDR_GEN_MODE_NONE);
    nla_nest_end(message.get(), v6);
    nla_nest_end(message.get(), families);
  }
  return rtnl::carry_out(socket_.get(), std::move(message));
}

// The flags alone don't tell: a new interface counts as running until the kernel has looked at its carrier for the
// first time. A question by netlink waits for the lock under which it does all of that, or has it done (6.8).
Result<bool> Netlink::is_about_to_send(u32 index) {
  ifinfomsg body{};
  body.ifi_index = static_cast<int>(index);
  rtnl::Message message = request(RTM_GETLINK, body);
  if (!message) return fail(ENOMEM);
  bool waits = false;
  const auto read = [&](nlmsghdr& answer) {
    nlattr* found[IFLA_MAX + 1];
    if (nlmsg_parse(&answer, sizeof(ifinfomsg), found, IFLA_MAX, nullptr) < 0) return;
    const u32 flags = static_cast<const ifinfomsg*>(nlmsg_data(&answer))->ifi_flags;
    const bool has_queue = !found[IFLA_QDISC] || nla_strcmp(found[IFLA_QDISC], "noop") != 0;
    waits = (flags & IFF_UP) != 0 && !((flags & IFF_RUNNING) != 0 && has_queue);
  };
  if (auto done = rtnl::ask(socket_.get(), std::move(message), read); !done) return fail(done.error());
  return waits;
}

Result<void> Netlink::add_address(u32 index, const Prefixed& address) {
  return rtnl::add(socket_.get(), {index, number_of(address.ip.family), address.prefix, address.ip.bytes});
}

Result<std::vector<Prefixed>> Netlink::addresses(u32 index) {
  auto all = rtnl::addresses(socket_.get());
  if (!all) return fail(all.error());
  std::vector<Prefixed> found;
  for (const rtnl::InterfaceAddress& one : *all)
    if (one.interface == index)
      found.push_back({make_ip(one.family == AF_INET ? Family::v4 : Family::v6, one.bytes.data()), one.prefix});
  return found;
}

Result<Ip> Netlink::next_hop(u32 index, const Ip& destination) {
  rtmsg body{};
  body.rtm_family = static_cast<u8>(number_of(destination.family));
  body.rtm_dst_len = static_cast<u8>(destination.size() * 8);
  rtnl::Message message = request(RTM_GETROUTE, body);
  if (!message) return fail(ENOMEM);
  nla_put(message.get(), RTA_DST, static_cast<int>(destination.size()), destination.bytes.data());
  nla_put_u32(message.get(), RTA_OIF, index);
  Ip hop = destination;
  const auto read = [&](nlmsghdr& answer) {
    nlattr* found[RTA_MAX + 1];
    if (nlmsg_parse(&answer, sizeof(rtmsg), found, RTA_MAX, nullptr) < 0) return;
    const bool v4 = destination.family == Family::v4;
    // By way of a neighbour of the other family: a family, and its address.
    if (const auto via = ip_in<16>(found[RTA_VIA], Family::v6, 2)) hop = *via;
    if (const auto gateway = v4 ? ip_in<4>(found[RTA_GATEWAY], Family::v4) : ip_in<16>(found[RTA_GATEWAY], Family::v6))
      hop = *gateway;
  };
  if (auto done = rtnl::ask(socket_.get(), std::move(message), read); !done) return fail(done.error());
  return hop;
}

// -- groups

namespace {

std::string text_of(const char* path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// "2       eth0      :     1      V3" and below it, indented, "010000E0     1 0:00000000": the address as the number
// that it is in this machine's byte order.
void parse_igmp(const std::string& interface, std::string_view text, std::vector<Ip>& groups) {
  std::istringstream lines{std::string(text)};
  bool ours = false;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string first, second;
    words >> first >> second;
    if (!line.starts_with('\t')) {
      ours = second == interface;
      continue;
    }
    u32 number = 0;
    const auto [end, error] = std::from_chars(first.data(), first.data() + first.size(), number, 16);
    if (!ours || error != std::errc{}) continue;
    u8 bytes[4];
    std::memcpy(bytes, &number, 4);
    groups.push_back(make_ip(Family::v4, bytes));
  }
}

// "1    lo              ff020000000000000000000000000001     1 0000000C 0".
void parse_igmp6(const std::string& interface, std::string_view text, std::vector<Ip>& groups) {
  std::istringstream lines{std::string(text)};
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string index, name, digits;
    words >> index >> name >> digits;
    if (name != interface || digits.size() != 32) continue;
    Ip ip{Family::v6, {}};
    for (u32 i = 0; i < 16; ++i) std::from_chars(digits.data() + 2 * i, digits.data() + 2 * i + 2, ip.bytes[i], 16);
    groups.push_back(ip);
  }
}

}  // namespace

std::vector<Ip> parse_groups(const std::string& interface, std::string_view igmp, std::string_view igmp6) {
  std::vector<Ip> groups;
  parse_igmp(interface, igmp, groups);
  parse_igmp6(interface, igmp6, groups);
  std::erase_if(groups, [](const Ip& ip) { return !ip.is_multicast(); });
  return groups;
}

std::vector<Ip> joined_groups(const std::string& interface) {
  return parse_groups(interface, text_of("/proc/net/igmp"), text_of("/proc/net/igmp6"));
}

}  // namespace softib::ipoib
