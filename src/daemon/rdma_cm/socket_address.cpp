#include "daemon/rdma_cm/socket_address.h"

#include <netinet/in.h>

#include <algorithm>
#include <cstring>

#include "fabric/addresses.h"
#include "wire/field.h"

namespace softib::daemon {

namespace {

constexpr u32 ib_size = 48;  // of struct sockaddr_ib
constexpr std::array<u8, 12> mapped_prefix{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

// struct sockaddr_ib, whose parts are in network order behind the family.
namespace ib {
constexpr wire::Field pkey{16, 16};
constexpr wire::Field flow{32, 32};
constexpr u32 gid_at = 8;  // bytes
constexpr wire::Field service_id{192, 64};
constexpr wire::Field service_mask{256, 64};
constexpr u32 scope_at = 40;
}  // namespace ib

bool all_zero(std::span<const u8> bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](u8 byte) { return byte == 0; });
}

SocketAddress parse_ipv4(std::span<const u8> bytes) {
  sockaddr_in in;
  std::memcpy(&in, bytes.data(), sizeof in);
  SocketAddress address;
  address.family = AF_INET;
  address.port = ntohs(in.sin_port);
  address.ip = ip_of(ntohl(in.sin_addr.s_addr));
  return address;
}

SocketAddress parse_ipv6(std::span<const u8> bytes) {
  sockaddr_in6 in;
  std::memcpy(&in, bytes.data(), sizeof in);
  SocketAddress address;
  address.family = AF_INET6;
  address.port = ntohs(in.sin6_port);
  std::memcpy(address.ip.data(), &in.sin6_addr, address.ip.size());
  address.flow = in.sin6_flowinfo;
  address.scope = in.sin6_scope_id;
  return address;
}

SocketAddress parse_ib(std::span<const u8> bytes) {
  SocketAddress address;
  address.family = family_ib;
  address.pkey = static_cast<u16>(wire::get(bytes, ib::pkey));
  address.flow = static_cast<u32>(wire::get(bytes, ib::flow));
  std::copy_n(bytes.begin() + ib::gid_at, address.gid.size(), address.gid.begin());
  address.service_id = wire::get(bytes, ib::service_id);
  address.service_mask = wire::get(bytes, ib::service_mask);
  std::memcpy(&address.ib_scope, bytes.data() + ib::scope_at, sizeof address.ib_scope);
  address.port = static_cast<u16>(address.service_id & address.service_mask);
  return address;
}

}  // namespace

Ip ip_of(u32 ipv4) {
  Ip ip{};
  std::copy(mapped_prefix.begin(), mapped_prefix.end(), ip.begin());
  wire::set(ip, {96, 32}, ipv4);
  return ip;
}

bool is_ipv4(const Ip& ip) { return std::equal(mapped_prefix.begin(), mapped_prefix.end(), ip.begin()); }

u32 ipv4_of(const Ip& ip) { return static_cast<u32>(wire::get(ip, {96, 32})); }

bool SocketAddress::is_any() const {
  if (is_loopback()) return true;
  if (family == AF_INET) return ipv4_of(ip) == 0;
  return all_zero(is_ib() ? std::span<const u8>(gid) : std::span<const u8>(ip));
}

bool SocketAddress::is_multicast() const {
  if (family == AF_INET) return ipv4_of(ip) >> 28 == 0xe;
  return (is_ib() ? gid[0] : ip[0]) == 0xff;
}

bool SocketAddress::is_link_local() const { return family == AF_INET6 && ip[0] == 0xfe && (ip[1] & 0xc0) == 0x80; }

bool SocketAddress::is_loopback() const {
  if (family == AF_INET) return ipv4_of(ip) >= 127U << 24 && ipv4_of(ip) < fabric::loopback_address(0, 0) - 1;
  Ip one{};
  one[15] = 1;
  return family == AF_INET6 && ip == one;
}

bool SocketAddress::same_place(const SocketAddress& other) const {
  if (family != other.family) return false;
  return is_ib() ? gid == other.gid : ip == other.ip;
}

void SocketAddress::set_port(u16 value) {
  port = value;
  if (!is_ib()) return;
  service_id = (service_id & ~u64{0xffff}) | value;
  service_mask |= 0xffff;
}

u32 size_of_family(u16 family) {
  if (family == AF_INET) return sizeof(sockaddr_in);
  if (family == AF_INET6) return sizeof(sockaddr_in6);
  return family == family_ib ? ib_size : 0;
}

std::optional<SocketAddress> parse_address(std::span<const u8> bytes) {
  u16 family = 0;
  if (bytes.size() < sizeof family) return std::nullopt;
  std::memcpy(&family, bytes.data(), sizeof family);
  const u32 size = size_of_family(family);
  if (size == 0 || bytes.size() < size) return std::nullopt;
  if (family == AF_INET) return parse_ipv4(bytes);
  return family == AF_INET6 ? parse_ipv6(bytes) : parse_ib(bytes);
}

u32 emit_address(const SocketAddress& address, std::span<u8> to) {
  const u32 size = size_of_family(address.family);
  if (size == 0 || to.size() < size) return 0;
  if (address.family == AF_INET) {
    sockaddr_in in{};
    in.sin_family = AF_INET;
    in.sin_port = htons(address.port);
    in.sin_addr.s_addr = htonl(ipv4_of(address.ip));
    std::memcpy(to.data(), &in, sizeof in);
  } else if (address.family == AF_INET6) {
    sockaddr_in6 in{};
    in.sin6_family = AF_INET6;
    in.sin6_port = htons(address.port);
    std::memcpy(&in.sin6_addr, address.ip.data(), address.ip.size());
    in.sin6_flowinfo = address.flow;
    in.sin6_scope_id = address.scope;
    std::memcpy(to.data(), &in, sizeof in);
  } else {
    std::memcpy(to.data(), &address.family, sizeof address.family);
    wire::set(to, ib::pkey, address.pkey);
    wire::set(to, ib::flow, address.flow);
    std::copy(address.gid.begin(), address.gid.end(), to.begin() + ib::gid_at);
    wire::set(to, ib::service_id, address.service_id);
    wire::set(to, ib::service_mask, address.service_mask);
    std::memcpy(to.data() + ib::scope_at, &address.ib_scope, sizeof address.ib_scope);
  }
  return size;
}

SocketAddress any_address(u16 family) {
  SocketAddress address;
  address.family = family;
  if (family == AF_INET) address.ip = ip_of(0);
  return address;
}

}  // namespace softib::daemon
