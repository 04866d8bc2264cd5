// How two of these services make an RC connection, in connected mode.
//
// RFC 4755 makes connections by the CM, under service ids that only a kernel may listen on: rdma_cm, the user's way to
// the CM, lets listeners of AF_IB choose within its own ranges. So the same facts as in the CM's REQ, REP and REJ go as
// datagrams between the UD queue pairs, to hosts whose hardware address says that they understand (takes_messages). As
// with the kernel's connected mode a connection carries packets one way, from the one who asked for it.
//
//    0         1        2          4            8            12           16                       36
//   +---------+--------+----------+------------+------------+------------+------------------------+
//   | version | kind   | reserved | number     | RC QPN     | PSN        | hardware address of    |
//   |    1    |        |          |            |            |            | who sends this         |
//   +---------+--------+----------+------------+------------+------------+------------------------+
//   |          largest message that the sender of this takes (36 to 40)                              |
//   +----------------------------------------------------------------------------------------------+
//
// On the connection itself each message is encapsulation, two bytes of 0, the VnetHeader (little endian) of the
// sender's kernel, and the packet. So checksums need not be made nor tested on the way: an RC connection has its own.
//
// The one who asks chooses the number, and repeats it in all that concerns the connection; it may ask again with the
// same one when no answer comes.
#pragma once

#include "ipoib/packets.h"

namespace softib::ipoib {

struct ConnectionMessage {
  static constexpr u32 size = 40;
  enum class Kind : u8 {
    request = 1,  // here is a queue pair that sends
    accept = 2,   // and one that receives
    refuse = 3,   // there won't be one, or no longer
    close = 4,    // by the one who asked: it is not needed any more
  };

  Kind kind = Kind::request;
  u32 number = 0;
  u32 qpn = 0;
  u32 psn = 0;
  HardwareAddress sender;
  u32 mtu = 0;

  auto operator<=>(const ConnectionMessage&) const = default;
  [[nodiscard]] Bytes emit() const;
  [[nodiscard]] static std::optional<ConnectionMessage> parse(View bytes);
};

}  // namespace softib::ipoib
