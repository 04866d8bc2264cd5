#include "ipoib/packets.h"

#include <algorithm>

#include "ipoib/checksum.h"

namespace softib::ipoib {

namespace {

std::optional<IpPacket> parse_v4(View bytes) {
  constexpr u32 least = 20;
  if (bytes.size() < least) return std::nullopt;
  IpPacket packet;
  packet.header_size = (bytes[0] & 15U) * 4;
  packet.size = get16(&bytes[2]);
  if (packet.header_size < least || packet.size < packet.header_size || packet.size > bytes.size()) return std::nullopt;
  const u16 fragment = get16(&bytes[6]);
  packet.dont_fragment = fragment & 0x4000;
  packet.fragment = fragment & 0x3fff;
  packet.protocol = static_cast<Protocol>(bytes[9]);
  packet.source = make_ip(Family::v4, &bytes[12]);
  packet.destination = make_ip(Family::v4, &bytes[16]);
  return packet;
}

constexpr u32 v6_header = 40;

std::optional<IpPacket> parse_v6(View bytes) {
  if (bytes.size() < v6_header) return std::nullopt;
  IpPacket packet;
  packet.family = Family::v6;
  packet.header_size = v6_header;
  packet.size = v6_header + get16(&bytes[4]);
  if (packet.size > bytes.size()) return std::nullopt;
  packet.dont_fragment = true;
  packet.protocol = static_cast<Protocol>(bytes[6]);
  packet.source = make_ip(Family::v6, &bytes[8]);
  packet.destination = make_ip(Family::v6, &bytes[24]);
  return packet;
}

}  // namespace

std::optional<IpPacket> parse_ip_packet(View bytes) {
  if (bytes.empty()) return std::nullopt;
  if (bytes[0] >> 4 == 4) return parse_v4(bytes);
  if (bytes[0] >> 4 == 6) return parse_v6(bytes);
  return std::nullopt;
}

// -- ARP
//
//    0          2          4      5      6          8             28            32            52            56
//   +----------+----------+------+------+----------+-------------+-------------+-------------+-------------+
//   | hardware | protocol | 20   |  4   | operation| sender hw   | sender IP   | target hw   | target IP   |
//   |   32     |  0x0800  |      |      |   1, 2   |             |             |             |             |
//   +----------+----------+------+------+----------+-------------+-------------+-------------+-------------+

namespace {

constexpr u32 arp_size = 56;
constexpr u16 arp_hardware = 32;
constexpr u16 arp_request = 1, arp_reply = 2;

}  // namespace

std::optional<AddressNews> parse_arp(View packet) {
  if (packet.size() < arp_size) return std::nullopt;
  const u8* at = packet.data();
  if (get16(at) != arp_hardware || get16(at + 2) != static_cast<u16>(EtherType::ipv4)) return std::nullopt;
  if (at[4] != HardwareAddress::size || at[5] != 4) return std::nullopt;
  const u16 operation = get16(at + 6);
  if (operation != arp_request && operation != arp_reply) return std::nullopt;
  AddressNews news;
  news.kind = operation == arp_request ? AskKind::question : AskKind::answer;
  news.sender_hardware = HardwareAddress::parse(packet.subspan<8, HardwareAddress::size>());
  news.sender = make_ip(Family::v4, at + 28);
  news.target = make_ip(Family::v4, at + 52);
  news.probe = get32(at + 28) == 0;
  if (news.sender.is_multicast() || news.target.is_multicast()) return std::nullopt;
  return news;
}

Bytes emit_arp(const AddressNews& news, const HardwareAddress& target_hardware) {
  Bytes packet(arp_size);
  u8* at = packet.data();
  put16(at, arp_hardware);
  put16(at + 2, static_cast<u16>(EtherType::ipv4));
  at[4] = HardwareAddress::size;
  at[5] = 4;
  put16(at + 6, news.kind == AskKind::question ? arp_request : arp_reply);
  const auto own = news.sender_hardware.value_or(HardwareAddress{}).emit();
  std::copy(own.begin(), own.end(), at + 8);
  std::copy_n(news.sender.bytes.begin(), 4, at + 28);
  const auto theirs = target_hardware.emit();
  std::copy(theirs.begin(), theirs.end(), at + 32);
  std::copy_n(news.target.bytes.begin(), 4, at + 52);
  return packet;
}

// -- neighbour discovery, behind the IPv6 header:
//
//    0      1      2          4                8                24
//   +------+------+----------+----------------+----------------+------------------------------------+
//   | type | code | checksum | flags, rest 0  |     target     | option: type, 3, 0, 0, 20 bytes    |
//   +------+------+----------+----------------+----------------+------------------------------------+

namespace {

constexpr u8 solicitation = 135, advertisement = 136;
constexpr u8 source_option = 1, target_option = 2;
constexpr u32 discovery_size = 24;
constexpr u32 option_size = 24;
constexpr u8 full_hops = 255;  // a router would have counted down
constexpr u8 flag_solicited = 0x40, flag_override = 0x20;

// False: malformed. Options of other kinds and sizes are passed over.
bool find_option(View options, u8 wanted, std::optional<HardwareAddress>& found) {
  while (!options.empty()) {
    if (options.size() < 8 || options[1] == 0 || options[1] * 8U > options.size()) return false;
    const u32 size = options[1] * 8U;
    if (options[0] == wanted && size == option_size)
      found = HardwareAddress::parse(options.subspan<4, HardwareAddress::size>());
    options = options.subspan(size);
  }
  return true;
}

bool is_unspecified(const Ip& ip) {
  return std::all_of(ip.bytes.begin(), ip.bytes.end(), [](u8 byte) { return byte == 0; });
}

void write_v6_header(u8* at, u32 payload, const Ip& source, const Ip& destination) {
  at[0] = 0x60;
  put16(at + 4, static_cast<u16>(payload));
  at[6] = static_cast<u8>(Protocol::icmpv6);
  at[7] = full_hops;
  std::copy(source.bytes.begin(), source.bytes.end(), at + 8);
  std::copy(destination.bytes.begin(), destination.bytes.end(), at + 24);
}

void finish_icmpv6(Bytes& packet, const Ip& source, const Ip& destination) {
  const View message = View(packet).subspan(v6_header);
  const u64 pseudo = pseudo_header(source, destination, Protocol::icmpv6, static_cast<u32>(message.size()));
  put16(packet.data() + v6_header + 2, checksum(message, pseudo));
}

}  // namespace

bool is_discovery(View packet) {
  return packet.size() > v6_header && packet[0] >> 4 == 6 && packet[6] == static_cast<u8>(Protocol::icmpv6) &&
         (packet[v6_header] == solicitation || packet[v6_header] == advertisement);
}

std::optional<AddressNews> parse_discovery(View bytes) {
  const auto packet = parse_ip_packet(bytes);
  if (!packet || !is_discovery(bytes) || bytes[7] != full_hops) return std::nullopt;
  const View message = bytes.subspan(v6_header, packet->size - v6_header);
  if (message.size() < discovery_size || message[1] != 0) return std::nullopt;
  const u64 pseudo =
      pseudo_header(packet->source, packet->destination, Protocol::icmpv6, static_cast<u32>(message.size()));
  if (checksum(message, pseudo) != 0) return std::nullopt;
  AddressNews news;
  const bool asks = message[0] == solicitation;
  news.kind = asks ? AskKind::question : AskKind::answer;
  news.target = make_ip(Family::v6, &message[8]);
  news.sender = asks ? packet->source : news.target;
  news.override = asks || (message[4] & flag_override);
  news.probe = asks && is_unspecified(packet->source);
  if (news.target.is_multicast() || packet->source.is_multicast()) return std::nullopt;
  if (!find_option(message.subspan(discovery_size), asks ? source_option : target_option, news.sender_hardware))
    return std::nullopt;
  return news;
}

Bytes emit_discovery(const AddressNews& news, const Ip& to, bool solicited) {
  const bool asks = news.kind == AskKind::question;
  const u32 payload = discovery_size + (news.sender_hardware ? option_size : 0);
  Bytes packet(v6_header + payload);
  write_v6_header(packet.data(), payload, news.sender, to);
  u8* at = packet.data() + v6_header;
  at[0] = asks ? solicitation : advertisement;
  if (!asks) at[4] = static_cast<u8>((solicited ? flag_solicited : 0) | (news.override ? flag_override : 0));
  std::copy(news.target.bytes.begin(), news.target.bytes.end(), at + 8);
  if (news.sender_hardware) {
    at[discovery_size] = asks ? source_option : target_option;
    at[discovery_size + 1] = option_size / 8;
    const auto own = news.sender_hardware->emit();
    std::copy(own.begin(), own.end(), at + discovery_size + 4);
  }
  finish_icmpv6(packet, news.sender, to);
  return packet;
}

Ip solicited_node(const Ip& ip) {
  Ip group{Family::v6, {0xff, 0x02, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff}};
  std::copy(ip.bytes.begin() + 13, ip.bytes.end(), group.bytes.begin() + 13);
  return group;
}

Ip all_nodes() { return {Family::v6, {0xff, 0x02, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}}; }

// -- ICMP

namespace {

constexpr u32 quoted = 512;  // bytes of the packet that are told with an error

struct IcmpError {
  u8 type_v4, code_v4, type_v6, code_v6;
  u32 mtu;
};

Bytes emit_v4_error(View packet, const IpPacket& about, const IcmpError& error) {
  constexpr u32 header = 20, icmp = 8;
  const auto quote = std::min<std::size_t>(packet.size(), quoted);
  Bytes out(header + icmp + quote);
  u8* at = out.data();
  at[0] = 0x45;
  put16(at + 2, static_cast<u16>(out.size()));
  at[8] = 64;
  at[9] = static_cast<u8>(Protocol::icmp);
  std::copy_n(about.destination.bytes.begin(), 4, at + 12);
  std::copy_n(about.source.bytes.begin(), 4, at + 16);
  put16(at + 10, checksum({at, header}));
  at[header] = error.type_v4;
  at[header + 1] = error.code_v4;
  put16(at + header + 6, static_cast<u16>(error.mtu));
  std::copy_n(packet.begin(), quote, at + header + icmp);
  put16(at + header + 2, checksum({at + header, icmp + quote}));
  return out;
}

Bytes emit_v6_error(View packet, const IpPacket& about, const IcmpError& error) {
  constexpr u32 icmp = 8;
  const auto quote = std::min<std::size_t>(packet.size(), quoted);
  Bytes out(v6_header + icmp + quote);
  write_v6_header(out.data(), static_cast<u32>(icmp + quote), about.destination, about.source);
  u8* at = out.data() + v6_header;
  at[0] = error.type_v6;
  at[1] = error.code_v6;
  put32(at + 4, error.mtu);
  std::copy_n(packet.begin(), quote, at + icmp);
  finish_icmpv6(out, about.destination, about.source);
  return out;
}

// None about errors, about what goes to many, nor about any but the first fragment.
bool may_tell(View packet, const IpPacket& about) {
  if (about.destination.is_multicast() || about.source.is_multicast() || is_unspecified(about.source)) return false;
  if (about.family == Family::v4 && (get16(&packet[6]) & 0x1fff)) return false;
  if (packet.size() <= about.header_size) return false;
  const u8 type = packet[about.header_size];
  constexpr u8 echo_request = 8, echo_reply = 0, first_v6_information = 128;
  if (about.protocol == Protocol::icmp) return type == echo_request || type == echo_reply;
  return about.protocol != Protocol::icmpv6 || type >= first_v6_information;
}

Bytes emit_error(View packet, const IcmpError& error) {
  const auto about = parse_ip_packet(packet);
  if (!about || !may_tell(packet, *about)) return {};
  return about->family == Family::v4 ? emit_v4_error(packet, *about, error) : emit_v6_error(packet, *about, error);
}

}  // namespace

Bytes emit_too_big(View packet, u32 mtu) { return emit_error(packet, {3, 4, 2, 0, mtu}); }

Bytes emit_unreachable(View packet) { return emit_error(packet, {3, 1, 1, 3, 0}); }

}  // namespace softib::ipoib
