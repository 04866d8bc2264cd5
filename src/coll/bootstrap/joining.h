// One rank's way into a meeting, and to connections with all others.
#pragma once

#include "coll/bootstrap/messages.h"
#include "coll/net/gate.h"

namespace softib::coll {

class Joining {
 public:
  struct Joined {
    std::vector<Member> members;
    std::vector<FrameSocket> peers;  // by rank; my own is closed
  };

  Joining(const MeetingPlace& place, const BootstrapOptions& options, const Environment& environment);
  [[nodiscard]] Outcome<Joined> run();

 private:
  [[nodiscard]] Outcome<void> reach_meeting();
  [[nodiscard]] std::string_view who_says_where() const;
  [[nodiscard]] Outcome<void> listen();
  [[nodiscard]] Outcome<Address> listening_address(std::size_t network) const;
  void say_hello();
  [[nodiscard]] std::optional<Error> obstacle();

  [[nodiscard]] Outcome<void> wait();
  [[nodiscard]] Outcome<void> hear_meeting();
  [[nodiscard]] Outcome<void> hear_frame(const Frame& frame);
  [[nodiscard]] Outcome<void> begin_connections(const Table& table);
  [[nodiscard]] Outcome<void> look_at_peer(u32 peer);
  void admit(FrameSocket& socket, const Frame& first);
  void say_ready_if_so();
  [[nodiscard]] Error gave_up();
  [[nodiscard]] Error time_out_error() const;

  MeetingPlace place_;
  BootstrapOptions options_;
  const Environment& environment_;
  Clock::time_point deadline_;
  Guest me_;
  std::size_t came_by_ = 0;  // which of the meeting's addresses
  std::vector<std::optional<Address>> listens_;
  Gate gate_;
  FrameSocket meeting_{Fd(), most_table_bytes};

  std::vector<Guest> guests_;       // by rank, once the table has come
  std::vector<FrameSocket> peers_;  // by rank
  std::vector<bool> connected_;     // and said so, or heard so
  u32 missing_ = 0;                 // peers
  bool have_table_ = false;
  bool said_ready_ = false;
  bool go_ = false;
};

}  // namespace softib::coll
