// Addresses as rdma_cm's commands carry them: AF_INET, AF_INET6 and AF_IB.
#pragma once

#include <array>
#include <optional>
#include <span>

#include "base/types.h"
#include "wire/packet.h"

namespace softib::daemon {

using wire::GidBytes;

// An IPv4 address as ::ffff:a.b.c.d, so that one type holds both kinds.
using Ip = std::array<u8, 16>;
[[nodiscard]] Ip ip_of(u32 ipv4);
[[nodiscard]] bool is_ipv4(const Ip& ip);
[[nodiscard]] u32 ipv4_of(const Ip& ip);

inline constexpr u16 family_ib = 27;  // AF_IB, which the C library doesn't name

struct SocketAddress {
  u16 family = 0;  // 0: none
  u16 port = 0;    // host order; of AF_IB the service id's low bits
  Ip ip{};         // AF_INET, AF_INET6
  u32 flow = 0;    // as it came
  u32 scope = 0;
  GidBytes gid{};  // AF_IB
  u16 pkey = 0;
  u64 service_id = 0;
  u64 service_mask = 0;
  u64 ib_scope = 0;

  [[nodiscard]] bool is_ib() const { return family == family_ib; }
  // Names every address of its family, or the host itself: to the connection manager, as in the kernel, that is one.
  [[nodiscard]] bool is_any() const;
  [[nodiscard]] bool is_multicast() const;
  [[nodiscard]] bool is_link_local() const;
  // ::1 or 127/8, without the part that is the fabric's hosts' (fabric::loopback_address).
  [[nodiscard]] bool is_loopback() const;
  // The same address, whatever the port.
  [[nodiscard]] bool same_place(const SocketAddress& other) const;
  void set_port(u16 value);
};

// 0: a family that rdma_cm doesn't know.
[[nodiscard]] u32 size_of_family(u16 family);

// The bytes of a sockaddr, in whichever structure a command has it.
template <typename Storage>
[[nodiscard]] std::span<const u8> storage_bytes(const Storage& storage) {
  return {reinterpret_cast<const u8*>(&storage), sizeof storage};
}

// What the first bytes say; nothing for another family or too few of them.
[[nodiscard]] std::optional<SocketAddress> parse_address(std::span<const u8> bytes);
// Its size; the rest of `to` stays as it is.
u32 emit_address(const SocketAddress& address, std::span<u8> to);

// "Any address" of a family.
[[nodiscard]] SocketAddress any_address(u16 family);

}  // namespace softib::daemon
