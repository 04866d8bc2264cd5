// The place where ranks come together: one thread that lives until all have met or it can't come to that.
#pragma once

#include "coll/bootstrap/messages.h"
#include "coll/net/sockets.h"

namespace softib::coll {

// Takes hellos until all ranks are there, gives everyone the table, waits until everyone is connected with everyone.
// Strangers and garbage are closed, and change nothing.
class Meeting {
 public:
  Meeting(std::vector<Fd> listeners, const Key& key) : listeners_(std::move(listeners)), key_(key) {}

  // Serves in a thread of its own that nobody waits for.
  static void serve_in_background(std::vector<Fd> listeners, const Key& key);

 private:
  struct Visitor {
    FrameSocket socket;
    Clock::time_point deadline;  // of a stranger, to say who it is
    std::optional<u32> rank;
    bool ready = false;
    bool gone = false;
  };
  enum class Phase : u8 { gathering, connecting, over, failed };

  void serve();
  void wait();
  void accept_all(const Fd& listener);
  void make_room();
  void look_at(Visitor& visitor, short events);
  void hear(Visitor& visitor, const Frame& frame);
  void welcome(Visitor& visitor, const Frame& frame);
  [[nodiscard]] std::string objection_to(const Hello& hello) const;
  void lose(Visitor& visitor);
  void send_table();
  void finish_if_all_ready();
  void fail_all(Reason reason);
  void refuse_one(Visitor& visitor, const Reason& reason);
  void say_to_guests(MeetingMessage message, std::span<const std::byte> body);
  void drop_gone();
  [[nodiscard]] bool anything_unsent() const;
  [[nodiscard]] std::string who_is_missing() const;

  std::vector<Fd> listeners_;
  Key key_;
  Phase phase_ = Phase::gathering;
  std::vector<std::unique_ptr<Visitor>> visitors_;
  std::vector<std::optional<Guest>> guests_;  // by rank; empty before the first one came
  std::vector<Hello> hellos_;                 // of the guests, by rank
  u32 here_ = 0;
  Reason failure_;
  Clock::time_point end_ = Clock::time_point::max();  // of what is left to do once over or failed
};

}  // namespace softib::coll
