#include "coll/net/address.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>

#include <algorithm>
#include <bit>
#include <memory>

#include "base/error_text.h"
#include "base/release.h"

namespace softib::coll {

namespace {

constexpr u8 wire_ipv4 = 4;
constexpr u8 wire_ipv6 = 6;

u32 prefix_of(const Address& mask) {
  u32 bits = 0;
  for (std::byte b : mask.ip()) bits += static_cast<u32>(std::popcount(static_cast<u8>(b)));
  return bits;
}

bool family_fits(const Environment& environment, const Address& address) {
  if (environment.socket_family == SocketFamily::any) return true;
  return (environment.socket_family == SocketFamily::ipv4) == (address.family() == AF_INET);
}

enum class InterfaceKind : u8 { infiniband, other, docker, loopback };

InterfaceKind kind_of(const Interface& interface) {
  if (interface.name.starts_with("ib")) return InterfaceKind::infiniband;
  if (interface.name.starts_with("docker")) return InterfaceKind::docker;
  return interface.name == "lo" || interface.address.is_loopback() ? InterfaceKind::loopback : InterfaceKind::other;
}

std::string names_of(const std::vector<Interface>& interfaces) {
  std::vector<std::string> names;
  for (const Interface& interface : interfaces)
    names.push_back(fmt::format("{} ({})", interface.name, interface.address.host()));
  return interfaces.empty() ? "no interface" : fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace

std::optional<Address> Address::of(const sockaddr* address) {
  if (!address || (address->sa_family != AF_INET && address->sa_family != AF_INET6)) return std::nullopt;
  Address made;
  std::memcpy(&made.storage_, address, address->sa_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6));
  return made;
}

std::optional<Address> Address::numeric(const std::string& text, u16 port) {
  Address made;
  auto& v4 = reinterpret_cast<sockaddr_in&>(made.storage_);
  auto& v6 = reinterpret_cast<sockaddr_in6&>(made.storage_);
  if (::inet_pton(AF_INET, text.c_str(), &v4.sin_addr) == 1) {
    made.storage_.ss_family = AF_INET;
  } else if (::inet_pton(AF_INET6, text.c_str(), &v6.sin6_addr) == 1) {
    made.storage_.ss_family = AF_INET6;
  } else {
    return std::nullopt;
  }
  return made.with_port(port);
}

Outcome<Address> Address::resolve(const std::string& text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string::npos) return refuse(Code::invalid_argument, fmt::format("'{}' has no port", text));
  std::string name = text.substr(0, colon);
  if (name.starts_with('[') && name.ends_with(']')) name = name.substr(1, name.size() - 2);
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = ::getaddrinfo(name.c_str(), text.c_str() + colon + 1, &hints, &found);
  const std::unique_ptr<addrinfo, Release<::freeaddrinfo>> owner(found);
  for (const addrinfo* at = found; error == 0 && at; at = at->ai_next)
    if (auto address = of(at->ai_addr)) return *address;
  return refuse(Code::invalid_argument,
                fmt::format("'{}' leads to no address: {}", text, error ? ::gai_strerror(error) : "no IP"));
}

socklen_t Address::size() const {
  if (family() == AF_INET) return sizeof(sockaddr_in);
  return family() == AF_INET6 ? sizeof(sockaddr_in6) : 0;
}

u16 Address::port() const {
  return ntohs(family() == AF_INET ? reinterpret_cast<const sockaddr_in&>(storage_).sin_port
                                   : reinterpret_cast<const sockaddr_in6&>(storage_).sin6_port);
}

Address Address::with_port(u16 port) const {
  Address made = *this;
  if (family() == AF_INET) reinterpret_cast<sockaddr_in&>(made.storage_).sin_port = htons(port);
  if (family() == AF_INET6) reinterpret_cast<sockaddr_in6&>(made.storage_).sin6_port = htons(port);
  return made;
}

std::span<const std::byte> Address::ip() const {
  if (family() == AF_INET) return std::as_bytes(std::span(&reinterpret_cast<const sockaddr_in&>(storage_).sin_addr, 1));
  if (family() != AF_INET6) return {};
  return std::as_bytes(std::span(&reinterpret_cast<const sockaddr_in6&>(storage_).sin6_addr, 1));
}

bool Address::is_loopback() const {
  if (family() == AF_INET) return static_cast<u8>(ip()[0]) == 127;
  return family() == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6&>(storage_).sin6_addr);
}

bool Address::is_link_local() const {
  return family() == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&reinterpret_cast<const sockaddr_in6&>(storage_).sin6_addr);
}

bool Address::in_subnet_of(const Address& other, u32 prefix) const {
  const auto mine = ip();
  const auto theirs = other.ip();
  if (family() != other.family() || prefix > 8 * mine.size()) return false;
  for (std::size_t i = 0; i < mine.size(); ++i) {
    const u32 bits = std::min<u32>(8, prefix - std::min<u32>(prefix, static_cast<u32>(8 * i)));
    if (static_cast<u8>(mine[i] ^ theirs[i]) >> (8 - bits) != 0) return false;
  }
  return true;
}

std::string Address::host() const {
  std::array<char, INET6_ADDRSTRLEN> text{};
  const auto bytes = ip();
  if (bytes.empty() || !::inet_ntop(family(), bytes.data(), text.data(), text.size())) return "no address";
  return text.data();
}

std::string Address::text() const {
  return family() == AF_INET6 ? fmt::format("[{}]:{}", host(), port()) : fmt::format("{}:{}", host(), port());
}

void Address::put(ByteWriter& to) const {
  to.number(family() == AF_INET ? wire_ipv4 : wire_ipv6);
  to.number(port());
  std::array<std::byte, 16> all{};
  const auto bytes = ip();
  std::copy(bytes.begin(), bytes.end(), all.begin());
  to.bytes(all);
}

std::optional<Address> Address::get(ByteReader& from) {
  const u8 family = from.number<u8>();
  const u16 port = from.number<u16>();
  const auto bytes = from.array<16>();
  if (!from.ok() || (family != wire_ipv4 && family != wire_ipv6)) return std::nullopt;
  Address made;
  made.storage_.ss_family = family == wire_ipv4 ? AF_INET : AF_INET6;
  auto* to = const_cast<std::byte*>(made.ip().data());
  std::memcpy(to, bytes.data(), made.ip().size());
  return made.with_port(port);
}

std::vector<Interface> list_interfaces() {
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0) return {};
  const std::unique_ptr<ifaddrs, Release<::freeifaddrs>> owner(first);
  std::vector<Interface> found;
  for (const ifaddrs* at = first; at; at = at->ifa_next) {
    const auto address = Address::of(at->ifa_addr);
    if (!address || !(at->ifa_flags & IFF_UP) || address->is_link_local()) continue;
    const auto mask = Address::of(at->ifa_netmask);
    found.push_back({at->ifa_name, *address, mask ? prefix_of(*mask) : static_cast<u32>(8 * address->ip().size())});
  }
  return found;
}

std::string text_of(const std::vector<Address>& addresses) {
  std::vector<std::string> texts;
  for (const Address& address : addresses) texts.push_back(address.text());
  return fmt::format("{}", fmt::join(texts, " or "));
}

Outcome<Interface> choose_interface(const Environment& environment, const std::optional<Address>& near,
                                    const std::vector<Interface>& interfaces) {
  auto chosen = choose_interfaces(environment, near, interfaces, 1);
  if (!chosen) return tl::unexpected(chosen.error());
  return chosen->front();
}

Outcome<std::vector<Interface>> choose_interfaces(const Environment& environment, const std::optional<Address>& near,
                                                  const std::vector<Interface>& interfaces, std::size_t most) {
  std::vector<Interface> left;
  for (const Interface& interface : interfaces)
    if (environment.socket_ifname.matches(interface.name) && family_fits(environment, interface.address))
      left.push_back(interface);
  if (left.empty())
    return refuse(Code::system_error,
                  fmt::format("no interface is as SOFTIB_SOCKET_IFNAME and SOFTIB_SOCKET_FAMILY ask; there is: {}",
                              names_of(interfaces)));
  const auto rank = [&](const Interface& interface) -> std::size_t {
    if (near && interface.address.in_subnet_of(*near, interface.prefix)) return 0;
    return 1 + static_cast<std::size_t>(kind_of(interface));
  };
  const auto order = [&](const Interface& interface) {
    return std::pair(environment.socket_ifname.place(interface.name), rank(interface));
  };
  std::ranges::stable_sort(left, [&](auto& a, auto& b) { return order(a) < order(b); });
  if (environment.socket_ifname.empty())
    left.erase(std::remove_if(left.begin() + 1, left.end(),
                              [](const Interface& interface) { return kind_of(interface) != InterfaceKind::other; }),
               left.end());
  left.resize(std::min(left.size(), most));
  return left;
}

}  // namespace softib::coll
