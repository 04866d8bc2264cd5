// The reliable multi-packet protocol (IBTA vol. 1, 13.6): long messages in segments of one MAD each, with windows,
// acknowledgements and time-outs. One sender or receiver is one direction of one transaction. No sockets and no clock
// inside: MADs and time go in, MADs come out.
//
//   byte 24  +---------+---------+------------+---------+
//            | version | type    | time flags | status  |
//       28   |  segment number                          |
//       32   |  payload length (DATA), new window (ACK) |
//       36   +------------------------------------------+  then the class's own header, then data
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "base/durations.h"
#include "base/types.h"
#include "wire/mad.h"

namespace softib::wire::rmpp {

enum class Type : u8 { none = 0, data = 1, ack = 2, stop = 3, abort = 4 };

enum class Status : u8 {
  ok = 0,
  no_resources = 1,
  took_too_long = 118,
  bad_length = 119,
  bad_segment = 120,
  bad_type = 121,
  window_too_small = 122,
  segment_too_big = 123,
  bad_status = 124,
  bad_version = 125,
  too_many_retries = 126,
  unspecified = 127,
};

inline constexpr u8 flag_active = 1;
inline constexpr u8 flag_first = 2;
inline constexpr u8 flag_last = 4;

namespace header {
inline constexpr Field version{192, 8};
inline constexpr Field type{200, 8};
inline constexpr Field response_time{208, 5};
inline constexpr Field flags{213, 3};
inline constexpr Field status{216, 8};
inline constexpr Field segment{224, 32};
inline constexpr Field length{256, 32};  // of DATA, from byte 36 on
inline constexpr Field window{256, 32};  // of ACK: the last segment that may be sent
}  // namespace header

inline constexpr u32 end_of_header = 36;
inline constexpr u32 no_response_time = 31;

// Where data begins in MADs of a class that has RMPP; 0 for one that has not.
[[nodiscard]] u32 data_offset(MgmtClass mgmt_class);
[[nodiscard]] bool is_active(const Mad& mad);  // part of a transfer, not an ordinary MAD
[[nodiscard]] Type type_of(const Mad& mad);

struct Message {
  Mad head{};  // the first segment; its bytes up to the data offset belong to the whole message
  std::vector<u8> data;
};

struct Timing {
  u64 answer_ns = ns::second;  // until an ACK, or the next segment
  u32 retries = 5;
  u32 window = 64;  // that a receiver grants
};

enum class Outcome : u8 { going, done, failed };

class Sender {
 public:
  Sender(Message message, const Timing& timing, u32 first_window = 1);

  // The next segment that may go out now, or an ABORT.
  [[nodiscard]] std::optional<Mad> next(u64 now);
  // ACK, STOP or ABORT of the other side.
  void received(const Mad& mad, u64 now);
  void on_time(u64 now);

  [[nodiscard]] u64 deadline() const { return outcome_ == Outcome::going ? deadline_ : ~u64{0}; }
  [[nodiscard]] Outcome outcome() const { return outcome_; }
  [[nodiscard]] Status status() const { return status_; }
  [[nodiscard]] u32 segments() const { return segments_; }

 private:
  [[nodiscard]] Mad segment(u32 number) const;
  void acknowledged(const Mad& mad, u64 now);
  void give_up(Status status, bool tell);

  Message message_;
  Timing timing_;
  u32 offset_;
  u32 room_;      // data bytes in a segment
  u32 segments_;  // at least one
  u32 sent_ = 0;
  u32 acknowledged_ = 0;
  u32 window_;
  u32 tries_ = 0;
  u64 deadline_ = ~u64{0};
  Outcome outcome_ = Outcome::going;
  Status status_ = Status::ok;
  bool abort_due_ = false;
};

class Receiver {
 public:
  // `most`: bytes of data that it takes.
  Receiver(MgmtClass mgmt_class, const Timing& timing, u32 most = 256U << 20);

  // A DATA segment, STOP or ABORT; gives the ACK or ABORT to send back.
  [[nodiscard]] std::optional<Mad> received(const Mad& mad, u64 now);
  void on_time(u64 now);

  [[nodiscard]] u64 deadline() const { return deadline_; }
  [[nodiscard]] Outcome outcome() const { return outcome_; }
  [[nodiscard]] Status status() const { return status_; }
  [[nodiscard]] Message take() { return std::move(message_); }

 private:
  [[nodiscard]] std::optional<Mad> data(const Mad& mad, u64 now);
  void accept(const Mad& mad);
  [[nodiscard]] Mad reply(const Mad& to, Type type) const;
  [[nodiscard]] Mad refuse(const Mad& to, Status status);

  Message message_;
  Timing timing_;
  u32 offset_;
  u32 most_;
  u32 have_ = 0;              // segments without a gap
  u32 window_ = 1;            // so the first segment is acknowledged at once, which lets the sender go on
  std::map<u32, Mad> early_;  // came before their turn; no more than a window
  u64 deadline_ = ~u64{0};
  Outcome outcome_ = Outcome::going;
  Status status_ = Status::ok;
};

}  // namespace softib::wire::rmpp
