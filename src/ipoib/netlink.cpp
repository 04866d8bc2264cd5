#include "ipoib/netlink.h"

#include <arpa/inet.h>
#include <linux/if_addr.h>
#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <sys/socket.h>

#include <charconv>
#include <fstream>
#include <sstream>

namespace softib::ipoib {

namespace {

u8 number_of(Family family) { return family == Family::v4 ? AF_INET : AF_INET6; }

// A message under construction.
class Message {
 public:
  template <typename Body>
  Message(u16 type, u16 flags, const Body& body) : bytes_(NLMSG_SPACE(sizeof body)) {
    auto& head = header();
    head.nlmsg_type = type;
    head.nlmsg_flags = static_cast<u16>(NLM_F_REQUEST | flags);
    std::memcpy(bytes_.data() + NLMSG_HDRLEN, &body, sizeof body);
    close();
  }

  void add(u16 type, std::span<const u8> data) {
    const std::size_t at = bytes_.size();
    bytes_.resize(at + RTA_SPACE(data.size()));
    rtattr attribute{static_cast<u16>(RTA_LENGTH(data.size())), type};
    std::memcpy(&bytes_[at], &attribute, sizeof attribute);
    if (!data.empty()) std::memcpy(&bytes_[at + RTA_LENGTH(0)], data.data(), data.size());
    close();
  }
  template <typename T>
  void add_value(u16 type, const T& value) {
    add(type, {reinterpret_cast<const u8*>(&value), sizeof value});
  }

  // Attributes from here to end() are parts of one.
  [[nodiscard]] std::size_t begin(u16 type) {
    const std::size_t at = bytes_.size();
    add(type, {});
    return at;
  }
  void end(std::size_t at) {
    const auto length = static_cast<u16>(bytes_.size() - at);
    std::memcpy(&bytes_[at], &length, sizeof length);
  }

  [[nodiscard]] std::span<u8> bytes() { return bytes_; }

 private:
  nlmsghdr& header() { return *reinterpret_cast<nlmsghdr*>(bytes_.data()); }
  void close() { header().nlmsg_len = static_cast<u32>(bytes_.size()); }

  std::vector<u8> bytes_;
};

// The attributes behind a message's body of type T.
template <typename T, typename Use>
void each_attribute(std::span<const u8> message, Use use) {
  std::size_t at = NLMSG_SPACE(sizeof(T));
  while (at + sizeof(rtattr) <= message.size()) {
    rtattr attribute;
    std::memcpy(&attribute, &message[at], sizeof attribute);
    if (attribute.rta_len < sizeof attribute || at + attribute.rta_len > message.size()) return;
    use(attribute.rta_type, message.subspan(at + RTA_LENGTH(0), attribute.rta_len - RTA_LENGTH(0)));
    at += RTA_ALIGN(attribute.rta_len);
  }
}

template <typename T>
std::optional<T> body_of(std::span<const u8> message) {
  T body;
  if (message.size() < NLMSG_SPACE(sizeof body)) return std::nullopt;
  std::memcpy(&body, message.data() + NLMSG_HDRLEN, sizeof body);
  return body;
}

Result<Fd> open_route_socket(u32 groups) {
  Fd socket(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE));
  sockaddr_nl own{};
  own.nl_family = AF_NETLINK;
  own.nl_groups = groups;
  if (!socket || ::bind(socket.get(), reinterpret_cast<sockaddr*>(&own), sizeof own) != 0) return fail(errno);
  return socket;
}

enum class Step : u8 { more, done };

// One message of an answer.
Result<Step> take_message(const nlmsghdr& header, std::span<const u8> message, u32 sequence,
                          const std::function<void(std::span<const u8>)>& visit) {
  if (header.nlmsg_seq != sequence) return Step::more;
  if (header.nlmsg_type == NLMSG_DONE) return Step::done;
  if (header.nlmsg_type != NLMSG_ERROR) {
    if (visit) visit(message);
    return Step::more;
  }
  const auto error = body_of<nlmsgerr>(message);
  if (error && error->error != 0) return fail(-error->error);
  return Step::done;
}

}  // namespace

Result<Netlink> Netlink::open() {
  auto socket = open_route_socket(0);
  if (!socket) return fail(socket.error());
  Netlink netlink;
  netlink.socket_ = std::move(*socket);
  return netlink;
}

// Requests ask for an acknowledgement, or are dumps: both have an end.
Result<void> Netlink::talk(std::span<u8> request, const Visit& visit) {
  auto& asked = *reinterpret_cast<nlmsghdr*>(request.data());
  asked.nlmsg_seq = ++sequence_;
  if ((asked.nlmsg_flags & NLM_F_DUMP) != NLM_F_DUMP) asked.nlmsg_flags |= NLM_F_ACK;
  if (::send(socket_.get(), request.data(), request.size(), 0) < 0) return fail(errno);
  alignas(nlmsghdr) u8 buffer[16384];
  for (;;) {
    const auto got = ::recv(socket_.get(), buffer, sizeof buffer, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return fail(errno);
    std::span<const u8> rest(buffer, static_cast<std::size_t>(got));
    while (rest.size() >= sizeof(nlmsghdr)) {
      nlmsghdr header;
      std::memcpy(&header, rest.data(), sizeof header);
      if (header.nlmsg_len < sizeof header || header.nlmsg_len > rest.size()) return fail(EPROTO);
      const auto step = take_message(header, rest.first(header.nlmsg_len), sequence_, visit);
      if (!step) return fail(step.error());
      if (*step == Step::done) return {};
      rest = rest.subspan(std::min<std::size_t>(rest.size(), NLMSG_ALIGN(header.nlmsg_len)));
    }
  }
}

Result<void> Netlink::set_link(u32 index, const LinkSettings& settings) {
  ifinfomsg body{};
  body.ifi_family = AF_UNSPEC;
  body.ifi_index = static_cast<int>(index);
  if (settings.up) {
    body.ifi_change = IFF_UP;
    body.ifi_flags = *settings.up ? static_cast<u32>(IFF_UP) : 0U;
  }
  Message message(RTM_NEWLINK, 0, body);
  if (settings.mtu) message.add_value(IFLA_MTU, *settings.mtu);
  if (settings.most_segments) message.add_value(IFLA_GSO_MAX_SEGS, *settings.most_segments);
  if (settings.broadcast) message.add(IFLA_BROADCAST, *settings.broadcast);
  if (settings.no_generated_address) {
    const auto families = message.begin(IFLA_AF_SPEC);
    const auto v6 = message.begin(AF_INET6);
    message.add_value(IFLA_INET6_ADDR_GEN_MODE, static_cast<u8>(IN6_ADDR_GEN_MODE_NONE));
    message.end(v6);
    message.end(families);
  }
  return talk(message.bytes());
}

Result<void> Netlink::add_address(u32 index, const Prefixed& address) {
  ifaddrmsg body{};
  body.ifa_family = number_of(address.ip.family);
  body.ifa_prefixlen = address.prefix;
  body.ifa_index = index;
  const bool v4 = address.ip.family == Family::v4;
  // Nobody can ask whether the address is taken before the broadcast group is joined.
  if (!v4) body.ifa_flags = IFA_F_NODAD;
  if (!v4 && same_network(address.ip, link_local(0), 10)) body.ifa_scope = RT_SCOPE_LINK;
  Message message(RTM_NEWADDR, NLM_F_CREATE | NLM_F_REPLACE, body);
  message.add(IFA_LOCAL, address.ip.view());
  message.add(IFA_ADDRESS, address.ip.view());
  constexpr u8 with_broadcast = 30;  // longer prefixes have none
  if (v4 && address.prefix <= with_broadcast) message.add(IFA_BROADCAST, broadcast_of(address).view());
  return talk(message.bytes());
}

Result<std::vector<Prefixed>> Netlink::addresses(u32 index) {
  std::vector<Prefixed> found;
  const auto visit = [&](std::span<const u8> bytes) {
    const auto body = body_of<ifaddrmsg>(bytes);
    if (!body || body->ifa_index != index) return;
    if (body->ifa_family != AF_INET && body->ifa_family != AF_INET6) return;
    const Family family = body->ifa_family == AF_INET ? Family::v4 : Family::v6;
    std::optional<Ip> local, other;
    each_attribute<ifaddrmsg>(bytes, [&](u16 type, std::span<const u8> data) {
      if (data.size() != Ip{family, {}}.size()) return;
      if (type == IFA_LOCAL) local = make_ip(family, data.data());
      if (type == IFA_ADDRESS) other = make_ip(family, data.data());
    });
    if (const auto& own = local ? local : other) found.push_back({*own, body->ifa_prefixlen});
  };
  Message message(RTM_GETADDR, NLM_F_DUMP, ifaddrmsg{});
  if (auto done = talk(message.bytes(), visit); !done) return fail(done.error());
  return found;
}

Result<Ip> Netlink::next_hop(u32 index, const Ip& destination) {
  rtmsg body{};
  body.rtm_family = number_of(destination.family);
  body.rtm_dst_len = static_cast<u8>(destination.size() * 8);
  Message message(RTM_GETROUTE, 0, body);
  message.add(RTA_DST, destination.view());
  message.add_value(RTA_OIF, index);
  Ip hop = destination;
  const auto visit = [&](std::span<const u8> bytes) {
    each_attribute<rtmsg>(bytes, [&](u16 type, std::span<const u8> data) {
      if (type == RTA_GATEWAY && data.size() == destination.size()) hop = make_ip(destination.family, data.data());
      // A family, and a gateway of that: IPv4 by way of an IPv6 neighbour.
      if (type == RTA_VIA && data.size() == 2 + sizeof(in6_addr)) hop = make_ip(Family::v6, data.data() + 2);
    });
  };
  if (auto done = talk(message.bytes(), visit); !done) return fail(done.error());
  return hop;
}

// -- changes

Result<NetlinkWatch> NetlinkWatch::open() {
  auto socket = open_route_socket(RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR | RTMGRP_IPV4_ROUTE | RTMGRP_IPV6_ROUTE);
  if (!socket) return fail(socket.error());
  NetlinkWatch watch;
  watch.socket_ = std::move(*socket);
  return watch;
}

Changes NetlinkWatch::read() {
  Changes changes;
  alignas(nlmsghdr) u8 buffer[16384];
  for (;;) {
    const auto got = ::recv(socket_.get(), buffer, sizeof buffer, MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == ENOBUFS) return {true, true, true};  // some were lost
    if (got <= 0) return changes;
    auto left = static_cast<u32>(got);
    for (auto* one = reinterpret_cast<nlmsghdr*>(buffer); NLMSG_OK(one, left); one = NLMSG_NEXT(one, left)) {
      changes.addresses |= one->nlmsg_type == RTM_NEWADDR || one->nlmsg_type == RTM_DELADDR;
      changes.routes |= one->nlmsg_type == RTM_NEWROUTE || one->nlmsg_type == RTM_DELROUTE;
    }
    changes.groups |= changes.addresses;
  }
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
