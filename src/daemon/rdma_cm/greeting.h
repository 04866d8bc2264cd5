// What rdma_cm puts before the private data of a REQ or SIDR_REQ to a service id that stands for an IP port: the
// addresses that the programs see (IBTA annex A11).
//
//    byte 0        1            2    3     4            20           36
//   +---------+------+------+-----------+------------+-------------+----------------
//   | version | IPv  | res. | port of   | address of | address of  | the program's
//   |   0     | 4, 6 |      | who asks  | who asks   | who answers | private data
//   +---------+------+------+-----------+------------+-------------+----------------
#pragma once

#include <algorithm>
#include <optional>
#include <vector>

#include "daemon/rdma_cm/socket_address.h"
#include "wire/field.h"

namespace softib::daemon {

inline constexpr u32 greeting_size = 36;

namespace greeting {
inline constexpr wire::Field version{0, 8};
inline constexpr wire::Field ip_version{8, 4};
inline constexpr wire::Field port{16, 16};
inline constexpr u32 asker_at = 4;  // bytes
inline constexpr u32 answerer_at = 20;
}  // namespace greeting

struct Greeting {
  u16 family = 0;
  u16 port = 0;
  Ip asker{};
  Ip answerer{};
};

[[nodiscard]] std::optional<Greeting> read_greeting(std::span<const u8> data);
[[nodiscard]] std::vector<u8> write_greeting(const SocketAddress& asker, const SocketAddress& answerer);

}  // namespace softib::daemon
