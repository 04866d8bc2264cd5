// The device attributes beyond the plain limits of hca/limits.h.
#pragma once

#include "abi/uverbs.h"
#include "base/types.h"

namespace softib::kernel::capabilities {

// Bits of device_cap_flags_ex that the installed header may be too old to name.
inline constexpr u64 flush_global = 1ULL << 38;
inline constexpr u64 flush_persistent = 1ULL << 39;
inline constexpr u64 atomic_write = 1ULL << 40;

// XRC, APM, raw packets, checksum offload, MW type 2A and timestamps are absent.
inline constexpr u64 device_flags =
    u64{IB_UVERBS_DEVICE_BAD_PKEY_CNTR} | u64{IB_UVERBS_DEVICE_BAD_QKEY_CNTR} |
    u64{IB_UVERBS_DEVICE_CURR_QP_STATE_MOD} | u64{IB_UVERBS_DEVICE_PORT_ACTIVE_EVENT} |
    u64{IB_UVERBS_DEVICE_SYS_IMAGE_GUID} | u64{IB_UVERBS_DEVICE_RC_RNR_NAK_GEN} | u64{IB_UVERBS_DEVICE_SRQ_RESIZE} |
    u64{IB_UVERBS_DEVICE_MEM_WINDOW} | u64{IB_UVERBS_DEVICE_MEM_MGT_EXTENSIONS} |
    u64{IB_UVERBS_DEVICE_MEM_WINDOW_TYPE_2B} | flush_global | flush_persistent | atomic_write;

inline constexpr u64 page_size_cap = 0xffff'f000;  // any power of two from 4 KiB on

// Atomic among all HCAs of the fabric in truth, but not with plain stores by processors; programs test for this value.
enum class AtomicCap : u32 { none, hca, global };
inline constexpr AtomicCap atomics = AtomicCap::hca;

// enum ibv_odp_general_caps and ibv_odp_transport_cap_bits
inline constexpr u64 odp_support = 1U << 0;
inline constexpr u64 odp_implicit = 1U << 1;
inline constexpr u32 odp_send = 1U << 0;
inline constexpr u32 odp_recv = 1U << 1;
inline constexpr u32 odp_write = 1U << 2;
inline constexpr u32 odp_read = 1U << 3;
inline constexpr u32 odp_atomic = 1U << 4;
inline constexpr u32 odp_srq_recv = 1U << 5;
inline constexpr u32 odp_flush = 1U << 6;
inline constexpr u32 odp_atomic_write = 1U << 7;

inline constexpr u64 odp_general = odp_support | odp_implicit;
inline constexpr u32 odp_ud = odp_send | odp_recv | odp_srq_recv;
inline constexpr u32 odp_uc = odp_ud | odp_write;
inline constexpr u32 odp_rc = odp_uc | odp_read | odp_atomic | odp_flush | odp_atomic_write;

}  // namespace softib::kernel::capabilities
