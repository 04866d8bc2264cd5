// An rdma_cm id: what the kernel's rdma_cm_id and its user's context hold together.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "cm/types.h"
#include "daemon/rdma_cm/port_spaces.h"
#include "daemon/rdma_cm/socket_address.h"

namespace softib::daemon {

enum class IdState : u8 {
  idle,
  address_query,
  address_resolved,
  route_query,
  route_resolved,
  connect,
  disconnect,
  address_bound,
  listen,
  removed,  // its device has gone
};

enum class IdQpType : u8 { rc = 2, uc = 3, ud = 4, xrc_send = 9, xrc_receive = 10 };  // enum ibv_qp_type

struct Multicast {
  u32 handle = 0;
  u64 uid = 0;
  u32 id = 0;  // whose it is
  SocketAddress address;
  u8 join_state = 0;
  GidBytes mgid{};
  bool joined = false;
  u64 question = 0;  // to the SA
  u32 events_reported = 0;
};

struct Id {
  u32 handle = 0;
  u32 file = 0;
  u32 host = 0;
  u64 uid = 0;  // 0: a new connection of which the program hasn't said yet what it calls it
  IdState state = IdState::idle;
  PortSpace space = PortSpace::none;
  IdQpType qp_type = IdQpType::rc;
  SocketAddress source;
  SocketAddress destination;
  u16 bound_port = 0;  // in `space` or what an AF_IB address says; 0: none
  PortSpace bound_space = PortSpace::none;

  u32 port = 0;  // index in the segment; 0: no device yet
  GidBytes sgid{};
  GidBytes dgid{};
  u16 pkey = 0xffff;
  std::vector<cm::Path> paths;

  u32 connection = 0;  // the protocol's id; 0: none
  u64 listens_for = 0;
  u64 listen_mask = 0;
  u32 starting_psn = 0;
  u32 qpn = 0;
  u32 qkey = 0;
  u8 srq = 0;

  u8 tos = 0;
  bool reuse = false;
  bool only_family = false;
  bool only_family_set = false;
  std::optional<u8> ack_timeout;

  u32 backlog = 0;
  u32 events_reported = 0;
  u64 timer = 0;     // of an address that nobody has: when to give up; 0: none
  u64 question = 0;  // to the SA
  std::vector<u32> multicasts;

  [[nodiscard]] bool is_datagram() const { return qp_type == IdQpType::ud; }
};

}  // namespace softib::daemon
