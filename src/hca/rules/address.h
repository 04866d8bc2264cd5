// What an address vector must hold before anything is sent by it.
#pragma once

#include "base/types.h"
#include "ipc/segment.h"

namespace softib::hca {

inline constexpr u16 first_multicast_lid = 0xC000;
inline constexpr u16 permissive_lid = 0xFFFF;

[[nodiscard]] constexpr bool is_multicast_lid(u16 lid) { return lid >= first_multicast_lid && lid != permissive_lid; }
// An IPv6 group, or an IPv4 one as ::ffff:a.b.c.d, which is what RoCE v2 has.
[[nodiscard]] constexpr bool is_multicast_gid(const ipc::Gid& gid) {
  if (gid.raw[0] == 0xff) return true;
  for (int i = 0; i < 10; ++i)
    if (gid.raw[i] != 0) return false;
  return gid.raw[10] == 0xff && gid.raw[11] == 0xff && gid.raw[12] >> 4 == 0xe;
}

// Is this the address of a multicast group? On Ethernet the GID tells; on InfiniBand the LID does.
[[nodiscard]] bool is_multicast(const ipc::AddressVector& av, ipc::LinkLayer layer);

enum class AddressUse : u8 { connected, datagram };

// EINVAL: no GRH on Ethernet, no LID on InfiniBand, an index past the GID table, a service level that does not exist, a
// connection to a multicast group.
[[nodiscard]] Result<void> check_address(const ipc::AddressVector& av, const ipc::Port& from, AddressUse use);

}  // namespace softib::hca
