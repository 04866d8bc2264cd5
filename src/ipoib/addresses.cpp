#include "ipoib/addresses.h"

#include <arpa/inet.h>

#include <algorithm>
#include <charconv>

namespace softib::ipoib {

namespace {

constexpr u16 ipv4_signature = 0x401b;
constexpr u16 ipv6_signature = 0x601b;

GidBytes space_of(const GroupSpace& space, u16 signature) {
  constexpr u8 transient = 0x10;
  return {0xff,
          static_cast<u8>(transient | space.scope),
          static_cast<u8>(signature >> 8),
          static_cast<u8>(signature),
          static_cast<u8>(space.pkey >> 8),
          static_cast<u8>(space.pkey)};
}

}  // namespace

Ip make_ip(Family family, const u8* bytes) {
  Ip ip{family, {}};
  std::memcpy(ip.bytes.data(), bytes, ip.size());
  return ip;
}

std::optional<Ip> parse_ip(std::string_view text) {
  const std::string copy(text);
  for (const auto& [family, number] : {std::pair{Family::v4, AF_INET}, std::pair{Family::v6, AF_INET6}}) {
    Ip ip{family, {}};
    if (::inet_pton(number, copy.c_str(), ip.bytes.data()) == 1) return ip;
  }
  return std::nullopt;
}

std::string to_text(const Ip& ip) {
  char text[INET6_ADDRSTRLEN] = "";
  ::inet_ntop(ip.family == Family::v4 ? AF_INET : AF_INET6, ip.bytes.data(), text, sizeof text);
  return text;
}

bool same_network(const Ip& a, const Ip& b, u32 prefix) {
  if (a.family != b.family || prefix > a.size() * 8) return false;
  const u32 whole = prefix / 8, rest = prefix % 8;
  if (!std::equal(a.bytes.begin(), a.bytes.begin() + whole, b.bytes.begin())) return false;
  return rest == 0 || ((a.bytes[whole] ^ b.bytes[whole]) >> (8 - rest)) == 0;
}

std::optional<Prefixed> parse_prefixed(std::string_view text) {
  const auto slash = text.find('/');
  const auto ip = parse_ip(text.substr(0, slash));
  if (!ip) return std::nullopt;
  Prefixed result{*ip, static_cast<u8>(ip->size() * 8)};
  if (slash == std::string_view::npos) return result;
  const std::string_view digits = text.substr(slash + 1);
  const auto [end, error] = std::from_chars(digits.begin(), digits.end(), result.prefix);
  if (error != std::errc{} || end != digits.end() || result.prefix > ip->size() * 8) return std::nullopt;
  return result;
}

Ip broadcast_of(const Prefixed& address) {
  Ip ip = address.ip;
  for (u32 bit = address.prefix; bit < 32; ++bit) ip.bytes[bit / 8] |= static_cast<u8>(0x80 >> bit % 8);
  return ip;
}

Ip link_local(u64 guid) {
  constexpr u8 universal = 2;
  Ip ip{Family::v6, {0xfe, 0x80}};
  for (u32 i = 0; i < 8; ++i) ip.bytes[8 + i] = static_cast<u8>(guid >> (56 - 8 * i));
  ip.bytes[8] |= universal;
  return ip;
}

std::array<u8, HardwareAddress::size> HardwareAddress::emit() const {
  std::array<u8, size> bytes{flags, static_cast<u8>(qpn >> 16), static_cast<u8>(qpn >> 8), static_cast<u8>(qpn)};
  std::copy(gid.begin(), gid.end(), bytes.begin() + 4);
  return bytes;
}

HardwareAddress HardwareAddress::parse(std::span<const u8, size> bytes) {
  HardwareAddress address{bytes[0], u32{bytes[1]} << 16 | u32{bytes[2]} << 8 | bytes[3], {}};
  std::copy(bytes.begin() + 4, bytes.end(), address.gid.begin());
  return address;
}

GidBytes GroupSpace::broadcast() const {
  GidBytes gid = space_of(*this, ipv4_signature);
  std::fill(gid.begin() + 12, gid.end(), u8{0xff});
  return gid;
}

GidBytes GroupSpace::group(const Ip& ip) const {
  if (ip.family == Family::v6) {
    GidBytes gid = space_of(*this, ipv6_signature);
    std::copy(ip.bytes.begin() + 6, ip.bytes.end(), gid.begin() + 6);
    return gid;
  }
  GidBytes gid = space_of(*this, ipv4_signature);
  std::copy(ip.bytes.begin(), ip.bytes.begin() + 4, gid.begin() + 12);
  gid[12] &= 0x0f;
  return gid;
}

}  // namespace softib::ipoib
