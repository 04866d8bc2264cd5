// The values that modify_qp may be given, once the transition table has agreed to the attributes as such.
#pragma once

#include <span>

#include "base/types.h"
#include "hca/rules/bits.h"
#include "ipc/protocol.h"

namespace softib::hca {

inline constexpr u32 psn_mask = 0xff'ffff;
inline constexpr u32 qpn_mask = 0xff'ffff;

// enum ibv_mig_state
enum class PathMigration : u32 { migrated = 0, rearm = 1, armed = 2 };

[[nodiscard]] constexpr u32 mtu_bytes(u32 mtu_enum) { return 128U << (mtu_enum & 7); }
[[nodiscard]] u32 mtu_enum(u32 bytes);  // 0 for 0

// Where the QP stands before the change.
struct QpPlace {
  u8 port_num;                       // 0 before INIT
  std::span<const ipc::Port> ports;  // of its device; the first has number 1
};

// The port that the QP uses after the change: the one given, the address vector's, or the one it has.
[[nodiscard]] u8 port_after(const ipc::QpAttributes& attributes, QpAttr mask, const QpPlace& place);

// EINVAL: a value out of its range, an index past its table, an MTU that the port cannot do, an address that is none.
[[nodiscard]] Result<void> check_values(const ipc::QpAttributes& attributes, QpAttr mask, const QpPlace& place);

}  // namespace softib::hca
