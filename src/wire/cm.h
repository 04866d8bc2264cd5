// The MADs of communication management (IBTA vol. 1, chapter 12): how two queue pairs find and leave each other. Each
// message is a value that is read from a MAD and put into one; list_fields() in cm.cpp says once for both where each of
// its parts lies.
#pragma once

#include <array>
#include <span>

#include "wire/mad.h"
#include "wire/packet.h"

namespace softib::wire::cm {

inline constexpr u8 class_version = 2;
inline constexpr u32 data_at = 24;  // bytes: behind the MAD's header

enum class Attribute : u16 {
  req = 0x10,
  mra,
  rej,
  rep,
  rtu,
  dreq,
  drep,
  sidr_req,
  sidr_rep,
  lap,
  apr,
};

// What an MRA or REJ is an answer to.
enum class About : u8 { req = 0, rep = 1, other = 2 };  // other: a LAP for MRAs, no message for REJs

enum class Transport : u8 { rc = 0, uc = 1, rd = 2, extended = 3 };

// One end's view of a path between the two queue pairs.
struct PathFields {
  u16 local_lid = 0;
  u16 remote_lid = 0;
  GidBytes local_gid{};
  GidBytes remote_gid{};
  u32 flow_label = 0;
  u8 rate = 0;
  u8 traffic_class = 0;
  u8 hop_limit = 0;
  u8 sl = 0;
  u8 subnet_local = 0;
  u8 ack_timeout = 0;
  friend bool operator==(const PathFields&, const PathFields&) = default;
};

template <size_t Size>
using PrivateData = std::array<u8, Size>;

struct Req {
  static constexpr Attribute attribute = Attribute::req;
  u32 local_id = 0;
  u64 service_id = 0;
  u64 local_ca_guid = 0;
  u32 local_qkey = 0;
  u32 local_qpn = 0;
  u8 responder_resources = 0;
  u32 local_eecn = 0;
  u8 initiator_depth = 0;
  u32 remote_eecn = 0;
  u8 remote_response_timeout = 0;
  u8 transport = 0;
  u8 flow_control = 0;
  u32 starting_psn = 0;
  u8 local_response_timeout = 0;
  u8 retry_count = 0;
  u16 pkey = 0;
  u8 mtu = 0;
  u8 rdc_exists = 0;
  u8 rnr_retry_count = 0;
  u8 max_cm_retries = 0;
  u8 srq = 0;
  u8 extended_transport = 0;
  PathFields primary;
  PathFields alternate;
  PrivateData<92> private_data{};
  friend bool operator==(const Req&, const Req&) = default;
};

struct Mra {
  static constexpr Attribute attribute = Attribute::mra;
  u32 local_id = 0;
  u32 remote_id = 0;
  u8 about = 0;
  u8 service_timeout = 0;
  PrivateData<222> private_data{};
  friend bool operator==(const Mra&, const Mra&) = default;
};

struct Rej {
  static constexpr Attribute attribute = Attribute::rej;
  u32 local_id = 0;
  u32 remote_id = 0;
  u8 about = 0;
  u8 information_length = 0;
  u16 reason = 0;
  PrivateData<72> information{};
  PrivateData<148> private_data{};
  friend bool operator==(const Rej&, const Rej&) = default;
};

struct Rep {
  static constexpr Attribute attribute = Attribute::rep;
  u32 local_id = 0;
  u32 remote_id = 0;
  u32 local_qkey = 0;
  u32 local_qpn = 0;
  u32 local_eecn = 0;
  u32 starting_psn = 0;
  u8 responder_resources = 0;
  u8 initiator_depth = 0;
  u8 target_ack_delay = 0;
  u8 failover_accepted = 0;
  u8 flow_control = 0;
  u8 rnr_retry_count = 0;
  u8 srq = 0;
  u64 local_ca_guid = 0;
  PrivateData<196> private_data{};
  friend bool operator==(const Rep&, const Rep&) = default;
};

struct Rtu {
  static constexpr Attribute attribute = Attribute::rtu;
  u32 local_id = 0;
  u32 remote_id = 0;
  PrivateData<224> private_data{};
  friend bool operator==(const Rtu&, const Rtu&) = default;
};

struct Dreq {
  static constexpr Attribute attribute = Attribute::dreq;
  u32 local_id = 0;
  u32 remote_id = 0;
  u32 remote_qpn = 0;
  PrivateData<220> private_data{};
  friend bool operator==(const Dreq&, const Dreq&) = default;
};

struct Drep {
  static constexpr Attribute attribute = Attribute::drep;
  u32 local_id = 0;
  u32 remote_id = 0;
  PrivateData<224> private_data{};
  friend bool operator==(const Drep&, const Drep&) = default;
};

struct Lap {
  static constexpr Attribute attribute = Attribute::lap;
  u32 local_id = 0;
  u32 remote_id = 0;
  u32 remote_qpn = 0;
  u8 remote_response_timeout = 0;
  PathFields alternate;
  PrivateData<168> private_data{};
  friend bool operator==(const Lap&, const Lap&) = default;
};

struct Apr {
  static constexpr Attribute attribute = Attribute::apr;
  u32 local_id = 0;
  u32 remote_id = 0;
  u8 information_length = 0;
  u8 status = 0;
  PrivateData<72> information{};
  PrivateData<148> private_data{};
  friend bool operator==(const Apr&, const Apr&) = default;
};

struct SidrReq {
  static constexpr Attribute attribute = Attribute::sidr_req;
  u32 request_id = 0;
  u16 pkey = 0;
  u64 service_id = 0;
  PrivateData<216> private_data{};
  friend bool operator==(const SidrReq&, const SidrReq&) = default;
};

struct SidrRep {
  static constexpr Attribute attribute = Attribute::sidr_rep;
  u32 request_id = 0;
  u8 status = 0;
  u8 information_length = 0;
  u32 qpn = 0;
  u64 service_id = 0;
  u32 qkey = 0;
  PrivateData<72> information{};
  PrivateData<136> private_data{};
  friend bool operator==(const SidrRep&, const SidrRep&) = default;
};

// The message of a MAD, whatever its attribute says.
template <typename Message>
[[nodiscard]] Message parse(const Mad& mad);

// A MAD with the message; the transaction is the sender's to choose.
template <typename Message>
[[nodiscard]] Mad emit(const Message& message, u64 transaction);

// Whether it is a MAD of this class as this version of it sends them.
[[nodiscard]] bool is_message(std::span<const u8> mad);
[[nodiscard]] inline Attribute attribute_of(const Mad& mad) { return static_cast<Attribute>(wire::attribute_of(mad)); }

}  // namespace softib::wire::cm
