// The direction from one peer: what it writes into the channel in this rank's memory, and what it announces.
#pragma once

#include <chrono>
#include <deque>

#include "coll/transport/shm/fetch_choice.h"
#include "coll/transport/shm/outgoing.h"

namespace softib::coll::shm {

class Incoming {
 public:
  // `scratch`: scratch_bytes for what a sink takes. What must be said to the peer goes through `answers`. Without
  // `choices` the peer's process is read wherever that is allowed.
  Incoming(Channel& channel, Outgoing& answers, Arena& arena, PeerMemory& peer, std::byte* scratch,
           FetchChoices* choices, Health& health)
      : channel_(channel),
        answers_(answers),
        arena_(arena),
        peer_(peer),
        scratch_(scratch),
        choices_(choices),
        health_(health) {}
  static constexpr u64 scratch_bytes = u64{128} << 10;

  // True if anything moved, if only this receive.
  bool receive(Receive& receive) {
    ++waiting_;
    if (matches_.post(receive)) return poll();
    receive_early(receive);
    return true;
  }
  void release(Receive& receive);
  // True if anything moved.
  bool progress() {
    const bool moved = poll();
    return (fetching_ && fetch()) || moved;
  }
  [[nodiscard]] bool idle() const { return waiting_ == 0; }

  // When this returns nothing writes to the memory of the receives any more. After Outgoing::fail_all() of this peer.
  void fail_all();

 private:
  // A message whose memory this rank reads.
  struct Pull {
    Receive* receive;
    u64 token;
    const std::byte* mapped;  // nullptr: by address
    u64 address;
  };
  // Messages that are under way together go the same way; the time of the first one tells what it costs.
  struct Burst {
    Fetch way = Fetch::chunks;
    const Receive* timed = nullptr;  // or none
    std::chrono::steady_clock::time_point begin{};
  };

  // Takes out all lines that are full.
  bool poll() {
    const Line& line = channel_.lines[lines_ % line_count];
    return line.head.load(std::memory_order_acquire) >> 32 == turn() && poll_lines();
  }
  bool poll_lines();
  void receive_early(Receive& receive);
  bool fetch();
  [[nodiscard]] u32 turn() const { return static_cast<u32>(lines_ / line_count + 1); }
  [[nodiscard]] bool take(const Line& line, Head head);
  [[nodiscard]] bool take_control(const Line& line, LineKind kind);
  [[nodiscard]] bool take_message(const Line& line, u64 bytes);
  [[nodiscard]] bool take_announcement(const Line& line);
  [[nodiscard]] bool keep(Stream stream, const std::byte* data, u64 bytes);
  [[nodiscard]] bool deliver(Receive& receive, const std::byte* data, u64 bytes);
  [[nodiscard]] bool begin(Receive& receive, const Announcement& announcement);
  [[nodiscard]] Fetch way_of(const Receive& receive);
  void note_time(const Receive& receive);
  [[nodiscard]] bool begin_pull(Receive& receive, const Announcement& announcement);
  [[nodiscard]] bool ask_for_write(Receive& receive, const Announcement& announcement);
  [[nodiscard]] bool take_written(u64 token);
  void take_back_places();
  bool pull_some();
  bool take_chunks();
  void hand(Receive& receive, const std::byte* data, u64 bytes, u64 streamed_from);
  void done(Receive& receive);
  void finished(Receive& receive);
  void failed(Receive& receive);
  bool fits(Receive& receive, u64 bytes);
  void publish();
  [[nodiscard]] bool still_valid();

  Channel& channel_;
  Outgoing& answers_;
  Arena& arena_;
  PeerMemory& peer_;
  std::byte* scratch_;
  FetchChoices* choices_;
  Health& health_;
  u64 lines_ = 0;
  u64 data_ = 0;
  u64 matched_ = 0;
  u64 chunks_ = 0;
  u64 early_cost_ = 0;
  u32 waiting_ = 0;        // receives that are neither done nor failed
  bool fetching_ = false;  // one of the next two has something
  Burst burst_;
  std::deque<Pull> pulls_;
  Fifo<Operation> chunked_;  // in the order of the requests
  Fifo<Operation> placed_;   // the peer writes them, in this order
  Matches matches_;
};

}  // namespace softib::coll::shm
