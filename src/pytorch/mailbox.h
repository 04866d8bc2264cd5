// Messages with tags between ranks. Between two ranks a communicator delivers messages in the order of sending, of
// sizes that both sides know; here each message tells its tag and size first, so a receive takes the first message with
// its tag, from one rank or from any. What comes before it is asked for is kept.
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <vector>

#include "coll/communicator.h"
#include "pytorch/task.h"

namespace softib::pytorch {

// Goes before each message; a short one is in it.
struct Envelope {
  static constexpr u64 inside = 48;
  u64 tag = 0;
  u64 bytes = 0;
  std::array<std::byte, inside> body{};
};
static_assert(sizeof(Envelope) == 64);

struct Letter {
  std::optional<u32> from;  // nothing: from any rank
  u64 tag = 0;
  void* memory = nullptr;
  u64 bytes = 0;
  // Called once, without any lock: from whom it came.
  std::function<void(const coll::Outcome<u32>&)> end;
  const void* owner = nullptr;  // by which it is found again
};

class Mailbox {
 public:
  // An end that is due, to be called without locks.
  using Due = std::vector<std::function<void()>>;

  Mailbox(u32 ranks, u32 rank);

  // The stage of a task that sends. `memory` lives until the task's end.
  [[nodiscard]] Task::Stage sending(u32 to, u64 tag, const void* memory, u64 bytes);

  // The rest is for the thread that drives the communicator.
  void expect(Letter letter, Due& due);
  void move_on(coll::Communicator& communicator, Due& due);
  void fail_all(const coll::Error& error, Due& due);
  // A letter that has not come; nothing: it came, or is coming.
  [[nodiscard]] const Letter* find_awaited(const void* owner) const;
  [[nodiscard]] bool is_waiting() const { return !awaited_.empty() || open_ != 0; }

 private:
  // A message that came before it was asked for.
  struct Kept {
    u64 tag = 0;
    std::vector<std::byte> data;
  };
  // What is under way from one rank: first an envelope, then what it tells of.
  struct Peer {
    enum class Phase : u8 { idle, envelope, body } phase = Phase::idle;
    Envelope envelope;
    coll::Request request;
    bool wanted = true;            // the communicator was told so of the envelope
    std::optional<Letter> letter;  // the body goes there; else to `arriving`
    Kept arriving;                 // not to be seen among the kept ones before it is here
    std::list<Kept> kept;
  };

  [[nodiscard]] bool is_wanted_from(u32 rank) const;
  [[nodiscard]] std::optional<Letter> take_awaited(u32 rank, u64 tag);
  bool begin_envelope(coll::Communicator& communicator, Peer& peer, u32 rank);
  void open(coll::Communicator& communicator, u32 rank, Due& due);
  void receive_body(coll::Communicator& communicator, u32 rank, void* memory);
  void close(u32 rank, Due& due);
  void tell_what_is_wanted(coll::Communicator& communicator);
  bool move_peer(coll::Communicator& communicator, u32 rank, Due& due);
  void look_at_own(Due& due);
  void give_or_keep(u32 from, Kept kept, Due& due);
  void keep_own(u64 tag, const void* memory, u64 bytes);
  static void hand_over(Letter letter, u32 from, Due& due);
  static bool fits(const Letter& letter, u32 from, u64 bytes, Due& due);

  u32 rank_;
  std::vector<Peer> peers_;
  std::list<Letter> awaited_;  // in the order of asking
  bool changed_ = false;       // what is awaited, since the communicator was told what is wanted
  u64 open_ = 0;               // letters whose bodies are on their way
};

}  // namespace softib::pytorch
