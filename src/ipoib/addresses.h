// Addresses of IP over InfiniBand: those of IP, the 20 bytes that stand for a hardware address, and the multicast GIDs
// that IP groups map to (RFC 4391).
#pragma once

#include <array>
#include <compare>
#include <cstring>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/types.h"

namespace softib::ipoib {

using GidBytes = std::array<u8, 16>;

enum class Family : u8 { v4 = 4, v6 = 6 };

// IPv4 addresses use the first four bytes; the others are 0.
struct Ip {
  Family family = Family::v4;
  std::array<u8, 16> bytes{};

  auto operator<=>(const Ip&) const = default;
  [[nodiscard]] u32 size() const { return family == Family::v4 ? 4 : 16; }
  [[nodiscard]] std::span<const u8> view() const { return {bytes.data(), size()}; }
  [[nodiscard]] bool is_multicast() const {
    return family == Family::v4 ? (bytes[0] & 0xf0) == 0xe0 : bytes[0] == 0xff;
  }
};

[[nodiscard]] Ip make_ip(Family family, const u8* bytes);
[[nodiscard]] std::optional<Ip> parse_ip(std::string_view text);
[[nodiscard]] std::string to_text(const Ip& ip);
[[nodiscard]] bool same_network(const Ip& a, const Ip& b, u32 prefix);

struct Prefixed {
  Ip ip;
  u8 prefix = 0;
  auto operator<=>(const Prefixed&) const = default;
};
[[nodiscard]] std::optional<Prefixed> parse_prefixed(std::string_view text);
// The directed broadcast address of an IPv4 network.
[[nodiscard]] Ip broadcast_of(const Prefixed& address);

// fe80::/64 and the GUID with the bit that marks it as universal.
[[nodiscard]] Ip link_local(u64 guid);

// What ARP and neighbour discovery carry in place of a MAC address:
//
//    0       1                4                              20
//   +-------+----------------+------------------------------+
//   | flags |  QPN of UD QP  |           port GID           |
//   +-------+----------------+------------------------------+
//     0x80: takes RC connections, 0x40: UC connections, by the CM (RFC 4755)
//     0x01: takes RC connections made by messages on the UD QP (connection_message.h)
//     0x02: takes packets whose checksum is open (packets.h); others take no notice of these two
struct HardwareAddress {
  static constexpr u32 size = 20;
  static constexpr u8 takes_messages = 0x01, takes_open = 0x02;

  u8 flags = 0;
  u32 qpn = 0;
  GidBytes gid{};

  auto operator<=>(const HardwareAddress&) const = default;
  [[nodiscard]] std::array<u8, size> emit() const;
  [[nodiscard]] static HardwareAddress parse(std::span<const u8, size> bytes);
};

// ff1S:401b:PKEY::/48 and ff1S:601b:PKEY::/48 with the group's low bits; scope S as that of the broadcast group.
struct GroupSpace {
  u16 pkey = 0xffff;
  u8 scope = 2;

  [[nodiscard]] GidBytes broadcast() const;
  [[nodiscard]] GidBytes group(const Ip& ip) const;  // ip.is_multicast()
};

// For unordered maps.
struct BytesHash {
  std::size_t operator()(const std::array<u8, 16>& bytes) const {
    u64 a, b;
    std::memcpy(&a, bytes.data(), 8);
    std::memcpy(&b, bytes.data() + 8, 8);
    return static_cast<std::size_t>((a * 0x9e3779b97f4a7c15U) ^ (b * 0xc2b2ae3d27d4eb4fU));
  }
  std::size_t operator()(const Ip& ip) const { return (*this)(ip.bytes) ^ static_cast<std::size_t>(ip.family); }
};

}  // namespace softib::ipoib
