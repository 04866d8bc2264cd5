// What the connection protocol and its users say to each other.
#pragma once

#include <optional>
#include <vector>

#include "base/types.h"
#include "wire/cm.h"
#include "wire/packet.h"

namespace softib::cm {

using wire::GidBytes;
using wire::cm::Transport;

// Names of what the kernel's and IBTA's numbers mean.
enum class RejectReason : u16 {
  no_qp = 1,
  timeout = 4,
  unsupported = 5,
  invalid_comm_id = 6,
  invalid_service_id = 8,
  invalid_transport = 9,
  stale_connection = 10,
  consumer_defined = 28,
  invalid_alternate_path = 32,
};

enum class SidrStatus : u8 { success = 0, unsupported = 1, reject = 2, no_qp = 3, redirect = 4, bad_version = 5 };

enum class AprStatus : u8 { accepted = 0, unsupported = 1, rejected = 2 };

// A way between two ports as the local one sees it. On Ethernet the GIDs alone lead there.
struct Path {
  bool ethernet = false;
  GidBytes sgid{};
  GidBytes dgid{};
  u16 slid = 0;
  u16 dlid = 0;
  u16 pkey = 0xffff;
  u8 sl = 0;
  u8 mtu = 0;          // enum ibv_mtu
  u8 rate = 0;         // enum ibv_rate
  u8 packet_life = 0;  // 4.096 us * 2^n
  u32 flow_label = 0;
  u8 hop_limit = 0;
  u8 traffic_class = 0;

  [[nodiscard]] bool is_global() const { return ethernet || hop_limit > 1; }
  friend bool operator==(const Path&, const Path&) = default;
};

enum class State : u8 {
  idle,
  listen,
  req_sent,
  mra_req_received,
  req_received,
  rep_sent,
  mra_rep_received,
  rep_received,
  established,
  dreq_sent,
  dreq_received,
  timewait,
  sidr_req_sent,
  sidr_req_received,
};

struct ConnectParameters {
  u32 port = 0;
  Path primary;
  std::optional<Path> alternate;
  u64 service_id = 0;
  Transport transport = Transport::rc;
  u32 qpn = 0;
  u32 starting_psn = 0;
  u8 responder_resources = 0;
  u8 initiator_depth = 0;
  u8 flow_control = 0;
  u8 retry_count = 0;
  u8 rnr_retry_count = 0;
  u8 srq = 0;
  u8 response_timeout = 20;  // of both ends
  u8 max_retries = 15;
  std::vector<u8> private_data;
};

struct AcceptParameters {
  u32 qpn = 0;
  u32 starting_psn = 0;
  u8 responder_resources = 0;
  u8 initiator_depth = 0;
  u8 flow_control = 0;
  u8 rnr_retry_count = 0;
  u8 srq = 0;
  std::vector<u8> private_data;
};

struct ServiceQuestion {
  u32 port = 0;
  Path path;
  u64 service_id = 0;
  u64 timeout_ns = 0;
  u8 max_retries = 15;
  std::vector<u8> private_data;
};

struct ServiceAnswer {
  SidrStatus status = SidrStatus::success;
  u32 qpn = 0;
  u32 qkey = 0;
  std::vector<u8> private_data;
};

enum class Happening : u8 {
  req_received,
  req_failed,  // no answer
  rep_received,
  rep_failed,
  established,  // RTU, or what establish() was told
  rejected,
  dreq_received,
  dreq_failed,
  drep_received,
  timewait_over,
  lap_received,
  lap_failed,
  apr_received,
  sidr_received,
  sidr_failed,
  sidr_answered,
};

struct Event {
  Happening what{};
  u32 id = 0;        // of requests: the new one
  u32 listener = 0;  // of requests
  u32 port = 0;      // of requests: where it came in
  u64 service_id = 0;
  Path path;  // of requests: to who asks
  std::optional<Path> alternate;
  u32 remote_qpn = 0;
  u32 starting_psn = 0;  // of requests: what the other end sends with
  u32 qkey = 0;
  Transport transport = Transport::rc;
  u8 responder_resources = 0;  // what this end is asked for, or may use: the other's turned round
  u8 initiator_depth = 0;
  u8 flow_control = 0;
  u8 retry_count = 0;
  u8 rnr_retry_count = 0;
  u8 srq = 0;
  u16 status = 0;  // RejectReason, SidrStatus or AprStatus
  std::vector<u8> private_data;
};

// What a queue pair of a connection is to be set to.
struct QueuePairView {
  State state = State::idle;
  u32 port = 0;
  Path path;
  std::optional<Path> alternate;
  Transport transport = Transport::rc;
  u32 remote_qpn = 0;
  u32 receive_psn = 0;
  u32 send_psn = 0;
  u8 mtu = 0;
  u8 timeout = 0;
  u8 alternate_timeout = 0;
  u8 responder_resources = 0;
  u8 initiator_depth = 0;
  u8 retry_count = 0;
  u8 rnr_retry_count = 0;
};

}  // namespace softib::cm
