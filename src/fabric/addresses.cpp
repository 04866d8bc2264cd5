#include "fabric/addresses.h"

#include <arpa/inet.h>
#include <fmt/format.h>

namespace softib::fabric {

namespace {

// The default fabric gets 52:54:00, the prefix that virtual machines have.
u16 name_part(std::string_view fabric) { return static_cast<u16>(short_hash(fabric) ^ short_hash("default") ^ 0x5400); }

u64 make_guid(std::string_view fabric, u32 node) {
  return 0x52ULL << 56 | static_cast<u64>(name_part(fabric)) << 40 | 0xfffeULL << 24 | node;
}

}  // namespace

// FNV-1a, folded.
u16 short_hash(std::string_view text) {
  u32 hash = 2166136261U;
  for (char c : text) hash = (hash ^ static_cast<u8>(c)) * 16777619U;
  return static_cast<u16>(hash ^ (hash >> 16));
}

u64 hca_guid(std::string_view fabric, u32 hca_number, u32 port) { return make_guid(fabric, hca_number << 4 | port); }

u64 switch_guid(std::string_view fabric, u32 switch_number) { return make_guid(fabric, 1U << 23 | switch_number << 4); }

Gid link_local_gid(u64 guid) {
  Gid gid{{0xfe, 0x80}};
  for (u32 i = 0; i < 8; ++i) gid.raw[8 + i] = static_cast<u8>(guid >> (56 - 8 * i));
  return gid;
}

Gid mapped_gid(u32 ipv4) {
  Gid gid{};
  gid.raw[10] = gid.raw[11] = 0xff;
  for (u32 i = 0; i < 4; ++i) gid.raw[12 + i] = static_cast<u8>(ipv4 >> (24 - 8 * i));
  return gid;
}

std::vector<GidEntry> initial_gids(LinkLayer link_layer, const Port& port) {
  if (link_layer == LinkLayer::infiniband) return {{link_local_gid(port.guid), GidType::ib}};
  // In the interface identifier of an address made from a MAC the universal/local bit is inverted.
  Gid local = link_local_gid(port.guid ^ (2ULL << 56));
  Gid mapped = mapped_gid(port.address);
  return {{local, GidType::roce_v1}, {local, GidType::roce_v2}, {mapped, GidType::roce_v1}, {mapped, GidType::roce_v2}};
}

u32 default_address(u32 host, u32 rail) { return 10U << 24 | rail << 16 | (host + 1); }

u32 ethernet_address(u32 host) { return default_address(host, 255); }

u32 loopback_address(u32 host, u32 rail) { return 127U << 24 | (64 + rail) << 16 | (host + 1); }

std::string ipv4_text(u32 address) {
  return fmt::format("{}.{}.{}.{}", address >> 24, address >> 16 & 0xff, address >> 8 & 0xff, address & 0xff);
}

namespace {

Ipv6 numbered(Ipv6 network, u32 host) {
  for (u32 i = 0; i < 4; ++i) network[15 - i] = static_cast<u8>((host + 1) >> (8 * i));
  return network;
}

}  // namespace

Ipv6 ethernet_address6(u32 host) { return numbered({0xfd, 0x53, 0x6f, 0x66, 0x74, 0x49, 0x00, 0x42}, host); }

Ipv6 port_address6(u32 host, u32 rail) {
  return numbered({0xfd, 0x53, 0x49, 0x42, static_cast<u8>(rail >> 8), static_cast<u8>(rail)}, host);
}

std::string ipv6_text(const Ipv6& address) {
  char text[INET6_ADDRSTRLEN];
  return ::inet_ntop(AF_INET6, address.data(), text, sizeof text) ? text : "";
}

}  // namespace softib::fabric
