// What this rank knows of a peer and has under way with it.
#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "coll/transport/lists.h"
#include "coll/transport/verbs/registrar.h"
#include "coll/transport/verbs/wire.h"

namespace softib::coll::verbs {

// Objects that are named by a number on the wire and in work requests.
template <typename T>
class Table {
 public:
  // `id` is set. Addresses stay.
  T& add() {
    if (free_.empty()) {
      free_.push_back(static_cast<u32>(items_.size()));
      items_.push_back(std::make_unique<T>());
      used_.push_back(false);
    }
    const u32 id = free_.back();
    free_.pop_back();
    used_[id] = true;
    *items_[id] = T{};
    items_[id]->id = id;
    return *items_[id];
  }
  void remove(T& item) {
    used_[item.id] = false;
    free_.push_back(item.id);
  }
  [[nodiscard]] T* find(u32 id) { return id < items_.size() && used_[id] ? items_[id].get() : nullptr; }

 private:
  std::vector<std::unique_ptr<T>> items_;
  std::vector<bool> used_;
  std::vector<u32> free_;
};

// A small message that came before its receive, or the announcement of one. Its bytes lie behind it.
struct Arrival {
  Arrival* next = nullptr;
  Stream stream = 0;
  u64 bytes = 0;
  bool announced = false;
  u32 token = 0;  // of the announcement
  u32 ordinal = 0;

  [[nodiscard]] std::byte* data() { return reinterpret_cast<std::byte*>(this + 1); }
};

// A peer's receive that may be written to.
struct Grant {
  Grant* next = nullptr;
  Stream stream = 0;
  Way way = Way::direct;
  u64 bytes = 0;
  u32 token = 0;
  GrantBody body;
};

struct Peer;

// A long message that is being sent. Its pieces go to the rails in turn.
struct Transfer {
  u32 id = 0;
  Peer* peer = nullptr;
  Send* send = nullptr;
  Grant grant;
  Registration* registration = nullptr;  // null: pieces are copied into bounce slots first
  u64 piece_bytes = 0;
  u64 pieces = 0;
  u64 posted = 0;
  u64 completed = 0;
  u64 consumed = 0;         // window: what the receiver is through with
  std::vector<u16> staged;  // bounce slots that hold pieces under way
};

// A long message that is being received.
struct Landing {
  u32 id = 0;
  Peer* peer = nullptr;
  Receive* receive = nullptr;
  Way way = Way::direct;
  Registration* registration = nullptr;  // direct
  u64 piece_bytes = 0;
  u64 pieces = 0;
  u64 next = 0;     // the first piece (direct: rails; pieces: bytes) that isn't in yet
  u64 told = 0;     // window: what the sender knows to be consumed
  u32 arrived = 0;  // window, fetch: a bit for each slot, of pieces that overtook others
  std::vector<u16> slots;
  u64 posted = 0;  // fetch
  GrantBody offer;
};

struct Rail {
  PairOwner pair;
  u32 device = 0;     // of this rank
  u32 port = 0;       // likewise, in Devices::ports
  std::string where;  // "mlx5_0:1 to mlx5_0:1", for people
  u32 pool_key = 0;   // of the peer's bounce slots
  u32 writes = 0;     // posted and not completed
  u32 reads = 0;
};

enum class Standing : u8 {
  connected,
  left,    // it said bye; what it sent before may still be taken
  closed,  // failed or given up: no queue pairs any more
};

struct Peer {
  u32 rank = 0;
  u32 index = 0;      // in the engine's list
  std::string title;  // "rank 3 on host1"
  Standing standing = Standing::connected;
  bool busy = false;          // in the engine's list of those that have something to send
  std::optional<Error> doom;  // it fails once what is to be told is told

  // What its Hello said.
  u32 small_bytes = 0;   // the longest message that goes at once
  u64 pool_address = 0;  // its bounce slots
  u32 pool_slot_bytes = 0;
  u32 reads_at_once = 0;  // on each rail; 0: none

  // The control queue pair.
  PairOwner control;
  u32 control_device = 0;
  u32 control_port = 0;
  std::string where;
  u32 inline_bytes = 0;
  u32 first_slot = 0;  // its receives' slots
  u32 credits = 0;     // receives of the peer that are posted and not spoken for
  u32 owed = 0;        // receives posted again here, of which the peer doesn't know
  u32 control_in_flight = 0;
  std::vector<u16> held_slots;  // send slots of those
  u32 unsignalled = 0;          // of those, since the last one that will tell of its completion
  u32 sent = 0;                 // small messages, modulo 2^32
  u32 sent_matched = 0;         // how many of them have found a receive, as far as known
  u32 matched = 0;              // small messages from there that have found one here
  u32 announcements = 0;

  std::vector<Rail> rails;
  u32 granted = 0;  // writes with immediate that may be on their way here, by the receives they may take from each rail

  StreamTable<Receive> receives;  // of small messages, waiting
  StreamTable<Arrival> arrivals;
  StreamTable<Send> sends;    // of long messages, waiting for a grant
  StreamTable<Grant> grants;  // waiting for a send
  Fifo<Send> outbox;          // small messages, waiting for credits
  Fifo<Send> announced;
  std::vector<Transfer*> transfers;
  std::vector<Landing*> landings;
  std::deque<Landing*> reading;  // of those that are read: not all pieces are posted
  // One has just come to its end: what the rank does next with it, while it is in a near cache, goes first.
  bool pauses_reading = false;
  // Long messages that the peer told to be waiting, and that have no receive here yet.
  struct LongWait {
    Stream stream = 0;
    u32 ordinal = 0;
    u64 bytes = 0;
  };
  std::vector<LongWait> long_waits;

  struct Note {
    Header header;
    GrantBody body;
  };
  std::deque<Note> notes;  // waiting for credits

  [[nodiscard]] bool idle() const {
    return receives.empty() && sends.empty() && outbox.empty() && announced.empty() && transfers.empty() &&
           landings.empty();
  }
};

}  // namespace softib::coll::verbs
