// What ranks tell each other over a control queue pair: a header, and what belongs to it right behind. Sent as it lies
// in memory; ranks of unequal byte order turn each other away when they meet.
#pragma once

#include <array>

#include "base/types.h"
#include "coll/transport/transport.h"

namespace softib::coll::verbs {

enum class Word : u8 {
  data,      // a whole small message
  announce,  // a small message that waits, since too many before it have no receive yet; `token` names the send
  grant,     // a receive is there: where to write to; `token` names it
  piece,     // the next part of a message whose receive can't be written to; `token` names the receive
  consumed,  // `token`, a receive: the first `count` pieces' slots may be written again
  credit,    // nothing but what every header carries
  mismatch,  // `bytes` were sent where `count` were expected; `token` is 1 where the sender says so
  bye,       // nothing comes any more
  waits,     // a long message has been waiting for its receive for a while
  offer,     // where a message lies that its receiver would rather read; `token` names the receive
  fetched,   // `token`, a receive: it was read, and its memory at the sender may be written again
};

// How a granted message comes.
enum class Way : u8 {
  direct,  // RDMA write into the receive's memory
  window,  // RDMA write into bounce slots, used in turn
  pieces,  // over the control queue pair
  fetch,   // RDMA read into slots of the receiver, if the sender makes an offer; else as with a window
};

inline constexpr u32 max_rails = 8;
inline constexpr u32 max_window = 8;

struct Header {
  Word word = Word::credit;
  Way way = Way::direct;
  u16 credits = 0;  // receives that the sender of this has posted again since he last said so
  u32 matched = 0;  // small messages that found their receive, so far, modulo 2^32
  Stream stream = 0;
  u64 bytes = 0;  // of the message; `piece`: of this part
  u32 token = 0;
  u32 count = 0;  // of messages and grants: the ordinal
};
static_assert(sizeof(Header) == 32);

// Behind a `grant`, and behind an `offer`, which has only the first two.
struct GrantBody {
  u64 address = 0;                      // direct, offer
  std::array<u32, max_rails> keys{};    // likewise: for the rails in order
  u32 piece_bytes = 0;                  // window: of a slot
  u32 window = 0;                       // slots
  std::array<u16, max_window> slots{};  // numbers of slots in the receiver's pool
  u32 answers = 0;                      // the token of an `announce` + 1, or 0: next long message of the stream
  u32 reserved = 0;
};
static_assert(sizeof(GrantBody) == 72);

[[nodiscard]] constexpr bool has_body(Word word) { return word == Word::grant || word == Word::offer; }

// The immediate of a write: which receive, and what came. Receives that get writes have tokens below 2^16.
[[nodiscard]] constexpr u32 immediate(u32 token, u64 low) { return token << 16 | static_cast<u32>(low & 0xffff); }
[[nodiscard]] constexpr u32 token_of(u32 immediate) { return immediate >> 16; }
[[nodiscard]] constexpr u32 low_of(u32 immediate) { return immediate & 0xffff; }

}  // namespace softib::coll::verbs
