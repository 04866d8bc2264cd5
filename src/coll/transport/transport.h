// How messages get from one rank to another. A communicator has one transport for each kind of way (memory of one
// host, queue pairs, TCP) and sends what goes to a peer by the transport that reaches it.
//
// Nothing here has a thread: operations move on inside progress(), and inside send() and receive() where they can end
// at once. One thread at a time may use the transports of a communicator.
#pragma once

#include <optional>
#include <span>

#include "coll/error.h"

namespace softib::coll {

// Names a sequence of messages from one rank to another: which collective of the communicator, and which lane of it.
// Messages of one stream arrive in the order in which they were sent; no stream waits for another. A message may come
// before its receive is posted, and before its receiver has begun the collective at all.
using Stream = u64;

enum class State : u8 { waiting, done, failed };

// Takes in a message piece by piece, in order, instead of copying it to the receive's memory: what a reduction does
// without another pass over the data. Pieces are whole elements: every piece but the last is a multiple of 64 bytes.
class Sink {
 public:
  virtual ~Sink() = default;
  // `bytes` bytes at `data` are what comes at `offset` (bytes) of the message.
  virtual void take(u64 offset, const void* data, u64 bytes) = 0;
};

// What both kinds of operations have. The caller owns them and leaves them where they are until they are done or
// failed; a transport links them into its lists.
struct Operation {
  u32 peer = 0;  // a rank of the communicator
  Stream stream = 0;
  u64 bytes = 0;  // may be 0: then the arrival counts
  // Both sides say so: the receiver may be shown the sender's memory instead of getting a copy. See Step::lend.
  bool lend = false;
  // Which of the stream's messages this is, from 1, as both sides count; 0: not told. A transport that matches long
  // messages and short ones apart finds by it that one side takes for long what is short on the other.
  u32 ordinal = 0;
  State state = State::waiting;

  // The transport's own.
  Operation* next = nullptr;
  u64 progress = 0;  // bytes that are through, or whatever the transport counts
  u64 token = 0;     // a key, slot or sequence number
};

// What is done needs nothing more of this rank: its peers' parts end though it never calls again.

// Done when its memory may be written again; with `lend`, when the receiver has given it back.
struct Send : Operation {
  const void* memory = nullptr;
  // This rank has no more to send than others have, so where it can it writes the message to its place itself. Else
  // receivers fetch it, several at the same time.
  bool push = false;
};

// Done when the data is there: in `memory`, in the sink, or with `lend` at `data` until release() is called.
struct Receive : Operation {
  void* memory = nullptr;      // `bytes` bytes; with a sink not used
  Sink* sink = nullptr;        // not together with `lend`
  const void* data = nullptr;  // with `lend`, once done: where to read; `memory` where lending wasn't possible
};

// A peer that can be reached no more, and why.
struct PeerFailure {
  u32 peer = 0;
  Error error;
};

class Transport {
 public:
  Transport() = default;
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;
  virtual ~Transport() = default;

  // "shm", "verbs", "tcp": as SOFTIB_DEBUG=INFO names it.
  [[nodiscard]] virtual const char* name() const = 0;

  // Begin an operation. It may be done or failed on return, and then progress() does not report it.
  virtual void send(Send& send) = 0;
  virtual void receive(Receive& receive) = 0;
  // The receiver of lent data has read it. Where that can't be told to the sender at once, the operation waits again,
  // and is done when it is told.
  virtual void release(Receive& receive) = 0;

  // Moves operations on without waiting. True if anything moved: callers spin for a while after that.
  virtual bool progress() = 0;

  // Ends all operations with a peer as failed and takes no more: it died, or the communicator is aborted. When this
  // returns nothing reads or writes the memory of those operations any more.
  virtual void give_up(u32 peer) = 0;
  // A peer whose connection broke since the last call, if any. Its operations have failed.
  [[nodiscard]] virtual std::optional<PeerFailure> broken() = 0;

  // Descriptors that become readable when progress() has something to do, for callers that rather sleep than spin.
  // arm() comes first: false if there is something to do already, or if it did some itself. Where a transport can't
  // wake anybody (plain memory), it has no descriptors, and callers sleep in short steps.
  [[nodiscard]] virtual std::span<const int> descriptors() const { return {}; }
  [[nodiscard]] virtual bool arm() { return true; }

  // Operations to come have their memory in this, which stays until it is given back, with the same numbers and as
  // often: it may be registered once for all of them, and is no longer when that returns and they have ended. Not
  // needed for anything to work.
  virtual void borrow_memory(const void* /*memory*/, u64 /*bytes*/) {}
  virtual void give_memory_back(const void* /*memory*/, u64 /*bytes*/) {}
  // Memory that the caller will use again and again (softib::coll::allocate's, a gradient bucket): registered once.
  // Not needed for anything to work.
  virtual void hint_memory(const void* /*memory*/, u64 /*bytes*/) {}
  // The memory goes away: forget registrations of it.
  virtual void forget_memory(const void* /*memory*/, u64 /*bytes*/) {}
};

}  // namespace softib::coll
