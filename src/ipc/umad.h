// What travels on the socket that stands for an open /dev/infiniband/umadN: one message a MAD, in either direction.
#pragma once

#include <sys/types.h>

#include <span>

#include "base/fd.h"
#include "base/types.h"

namespace softib::ipc {

// The kernel's ib_user_mad_hdr in host byte order; then the MAD itself, or, when it is longer than inline_mad, a memfd
// with it as SCM_RIGHTS.
struct UmadFrame {
  u32 agent;   // as the file's registrations count them
  u32 status;  // 0 or ETIMEDOUT
  u32 timeout_ms;
  u32 retries;
  u32 length;  // of the MAD
  u32 qpn;
  u32 qkey;
  u16 lid;
  u8 sl;
  u8 path_bits;
  u8 grh_present;
  u8 gid_index;
  u8 hop_limit;
  u8 traffic_class;
  u8 gid[16];
  u32 flow_label;
  u16 pkey_index;
  u16 reserved;
};
static_assert(sizeof(UmadFrame) == 60);

inline constexpr u32 inline_mad = 32 * 1024;
inline constexpr u32 largest_mad = 64U << 20;
inline constexpr u32 shortest_mad = 36;  // ib_umad wants the RMPP header's room in any case

// Sends a frame with its MAD. `flags` as of sendmsg(). ENOMEM: no memory for what goes beside; else sendmsg()'s error.
[[nodiscard]] Result<void> send_frame(int socket, const UmadFrame& frame, std::span<const u8> mad, int flags);

struct ReceivedFrame {
  ssize_t size;  // as recvmsg(), errno with -1; 0: the other end is closed
  Fd beside;     // the memfd, for pread()
};
// The frame, and of an inline MAD what fits into `room`. `flags` as of recvmsg().
[[nodiscard]] ReceivedFrame receive_frame(int socket, UmadFrame& frame, std::span<u8> room, int flags);

}  // namespace softib::ipc
