// The direction to one peer: lines and data that this rank writes into the channel in the peer's memory.
#pragma once

#include <deque>
#include <vector>

#include "coll/transport/shm/arena.h"
#include "coll/transport/shm/matching.h"
#include "coll/transport/shm/process_memory.h"
#include "coll/transport/shm/store_choice.h"

namespace softib::coll::shm {

// What a peer has that is not in a channel.
struct PeerMemory {
  PeerArena arena;
  ProcessMemory process;
  i32 process_id = 0;  // 0: not known
};

class Outgoing {
 public:
  // `peer_end`: of the channel in the other direction.
  Outgoing(Channel& channel, const Closed& peer_end, const Arena& arena, PeerMemory& peer, StoreChoices& stores,
           Health& health)
      : channel_(channel), peer_end_(peer_end), arena_(arena), peer_(peer), stores_(stores), health_(health) {}

  // What costs time is here, so that it becomes a part of its callers.
  void send(Send& send) {
    if (!held_ && send.bytes <= inline_most && lines_ != lines_end_ && cost_ + cost_of(send.bytes) <= cost_end_)
      put_inline(send);
    else
      send_otherwise(send);
  }
  // A line about a message of the peer's.
  void say(LineKind kind, u64 token, u64 place = Announcement::nowhere) { say({kind, token, place, nullptr}); }
  // The last line about a message that the peer sent: `receive` is done when that line is out, and no earlier.
  // Whoever is done may never come back here, and the peer would wait.
  void say_finished(u64 token, Receive& receive) { say({LineKind::finished, token, Announcement::nowhere, &receive}); }
  // What the peer says about a message that was announced to it. False: that makes no sense.
  [[nodiscard]] bool requested(u64 token);
  [[nodiscard]] bool finished(u64 token);
  [[nodiscard]] bool placed(u64 token, u64 place);

  // Writes what had no room before. True if anything moved.
  bool progress();
  // Nothing is under way, and nothing waits for room.
  [[nodiscard]] bool idle() const { return waiting_ == 0 && !held_; }
  // Something waits for room in the channel.
  [[nodiscard]] bool held() const { return held_; }

  void fail_all();

 private:
  // An announced message; its token is where it stands here, and how often the place was used.
  struct Slot {
    Send* send = nullptr;
    u32 use = 0;
    bool requested = false;
  };
  struct Control {
    LineKind kind;
    u64 token;
    u64 place;
    Receive* ends;  // or nullptr
  };
  // An announced message that this rank writes to where it belongs.
  struct Write {
    Send* send;
    std::byte* to;
  };

  [[nodiscard]] bool has_line() { return lines_ != lines_end_ || (look() && lines_ != lines_end_); }
  [[nodiscard]] bool affordable(u64 bytes);
  [[nodiscard]] bool look();
  // False: no room now.
  [[nodiscard]] bool put(Send& send);
  [[nodiscard]] bool put_data(Send& send);
  void send_otherwise(Send& send);
  void put_inline(Send& send) {
    Line& line = next_line();
    line.name = send.stream;
    copy_short(line.payload.data(), send.memory, send.bytes);
    cost_ += cost_of(send.bytes);
    publish(line, LineKind::message, send.bytes);
    send.state = State::done;
  }
  void announce(Send& send, u64 place);
  // The one store that makes a line visible.
  void publish(Line& line, LineKind kind, u64 bytes) {
    const Head head{static_cast<u32>(lines_ / line_count + 1), kind, static_cast<u16>(bytes)};
    line.head.store(head.word(), std::memory_order_release);
    ++lines_;
  }
  void say(const Control& control);
  void put_control(const Control& control);
  void note_held() { held_ = !queue_.empty() || !controls_.empty() || !pushing_.empty() || !writes_.empty(); }
  [[nodiscard]] Line& next_line() { return channel_.lines[lines_ % line_count]; }
  [[nodiscard]] Slot* slot_of(u64 token);
  void end(Slot& slot);
  bool push_chunks();
  bool write_some();
  [[nodiscard]] bool write_piece(const Write& write, u64 bytes);

  Channel& channel_;
  const Closed& peer_end_;
  const Arena& arena_;
  PeerMemory& peer_;
  StoreChoices& stores_;
  Health& health_;
  // Each with the number up to which the peer's last known state lets it go.
  u64 lines_ = 0;
  u64 lines_end_ = line_count;
  u64 data_ = 0;
  u64 data_end_ = data_bytes;
  u64 cost_ = 0;
  u64 cost_end_ = early_most;
  u64 chunks_ = 0;
  u32 waiting_ = 0;    // sends that are neither done nor failed
  bool held_ = false;  // any of the next four has something; pushing_ waits for room in the chunks
  std::deque<Write> writes_;
  Fifo<Operation> queue_;  // sends that had no room, in order
  std::deque<Control> controls_;
  std::vector<Slot> slots_;
  std::vector<u32> free_slots_;
  Fifo<Operation> pushing_;  // announced sends that the peer wants in chunks, in the order of its requests
};

}  // namespace softib::coll::shm
