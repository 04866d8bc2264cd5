// What travels behind the encapsulation header: ARP (RFC 4391 9.1), IPv6 neighbour discovery (9.3), and ICMP messages
// by which the service tells its own kernel of a packet that can't go out.
//
//    0         2          4
//   +---------+----------+------------------+
//   |  type   | reserved |     packet       |    encapsulation
//   +---------+----------+------------------+
//
// Between two of these services the last reserved bit says that the packet's TCP or UDP checksum is open: the field
// holds the sum of the pseudo header, as the kernel leaves it to network cards. What a link does to a packet its own
// checksums tell (ICRC), so nobody need look at every byte twice more. Others get packets with checksums.
#pragma once

#include <vector>

#include "ipoib/addresses.h"

namespace softib::ipoib {

// `connection` is the one that IEEE 802 leaves for local experiments.
enum class EtherType : u16 { ipv4 = 0x0800, arp = 0x0806, ipv6 = 0x86dd, connection = 0x88b5 };

inline constexpr u16 open_checksum = 1;  // of the encapsulation's reserved bits

using Bytes = std::vector<u8>;
using View = std::span<const u8>;

[[nodiscard]] constexpr u16 get16(const u8* at) { return static_cast<u16>(at[0] << 8 | at[1]); }
[[nodiscard]] constexpr u32 get32(const u8* at) { return u32{get16(at)} << 16 | get16(at + 2); }
constexpr void put16(u8* at, u16 value) {
  at[0] = static_cast<u8>(value >> 8);
  at[1] = static_cast<u8>(value);
}
constexpr void put32(u8* at, u32 value) {
  put16(at, static_cast<u16>(value >> 16));
  put16(at + 2, static_cast<u16>(value));
}

constexpr void put_encapsulation(u8* at, EtherType type, u16 marks = 0) {
  put16(at, static_cast<u16>(type));
  put16(at + 2, marks);
}

// -- IP

enum class Protocol : u8 { icmp = 1, igmp = 2, tcp = 6, udp = 17, icmpv6 = 58 };

// The parts of an IP packet that steer it. `size` is what the header says, at most what is there.
struct IpPacket {
  Family family = Family::v4;
  u32 header_size = 0;
  u32 size = 0;
  Protocol protocol{};  // of what follows the (first) header
  bool fragment = false;
  bool dont_fragment = false;
  Ip source;
  Ip destination;
};
[[nodiscard]] std::optional<IpPacket> parse_ip_packet(View bytes);

// -- who has this address?

enum class AskKind : u8 { question, answer };

// An ARP packet, or a neighbour solicitation or advertisement.
struct AddressNews {
  AskKind kind = AskKind::question;
  Ip sender;  // may be unspecified
  std::optional<HardwareAddress> sender_hardware;
  Ip target;             // whose hardware address is asked for, or told with an advertisement
  bool probe = false;    // a question by one who has no address yet
  bool override = true;  // an answer that goes over what was known
};

// ARP knows its own form; discovery is an IPv6 packet.
[[nodiscard]] std::optional<AddressNews> parse_arp(View packet);
[[nodiscard]] Bytes emit_arp(const AddressNews& news, const HardwareAddress& target_hardware);

// nullopt: any other IPv6 packet, or one that RFC 4861 says to ignore.
[[nodiscard]] std::optional<AddressNews> parse_discovery(View packet);
[[nodiscard]] bool is_discovery(View packet);
// `to` is where the packet goes; `solicited` for answers to a question.
[[nodiscard]] Bytes emit_discovery(const AddressNews& news, const Ip& to, bool solicited);
[[nodiscard]] Ip solicited_node(const Ip& ip);
[[nodiscard]] Ip all_nodes();

// -- to one's own kernel

// As if it came from where `packet` was to go: too large for `mtu`, or nobody answers there. Empty: none may be sent.
[[nodiscard]] Bytes emit_too_big(View packet, u32 mtu);
[[nodiscard]] Bytes emit_unreachable(View packet);

}  // namespace softib::ipoib
