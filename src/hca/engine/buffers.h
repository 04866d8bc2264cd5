// Scatter/gather lists whose keys have been checked.
#pragma once

#include <algorithm>

#include "abi/rxe.h"
#include "hca/engine/copy.h"
#include "hca/engine/keys.h"
#include "hca/engine/verbs.h"

namespace softib::hca {

inline constexpr u32 max_pieces = 33;  // limits::max_sge, and one for a header

struct Buffers {
  u32 count = 0;
  u64 total = 0;
  MemoryRef pieces[max_pieces];

  // Where the next piece is to be written; added() then counts it.
  MemoryRef& next() { return pieces[std::min(count, max_pieces - 1)]; }
  void added() {
    if (count == max_pieces || pieces[count].length == 0) return;
    total += pieces[count++].length;
  }
};

// Checks `count` SGEs and adds them; stops when `wanted` bytes are covered (a receive that is longer than the message
// has its surplus keys unchecked, as an HCA never reads that far). False: a bad key.
bool add_sges(Context& context, Buffers& buffers, const rxe_sge* sges, u32 count, u32 pd, LocalUse use, u64 wanted);

Result<void> transfer_pieces(Context& context, const Buffers& to, u64 skip, const Buffers& from, u64 length);

// Moves `length` bytes from one list to the other, starting `skip` bytes into `to`; both are long enough.
[[gnu::always_inline]] inline Result<void> transfer(Context& context, const Buffers& to, u64 skip, const Buffers& from,
                                                    u64 length) {
  if (to.count == 1 && from.count == 1 && skip == 0) [[likely]] {
    u8* target = context.memory.plain(to.pieces[0]);
    const u8* source = context.memory.plain(from.pieces[0]);
    if (target && source) [[likely]] {
      copy_message(target, source, length, to.pieces[0].slot == context.slot ? Target::own : Target::peer);
      return {};
    }
  }
  return transfer_pieces(context, to, skip, from, length);
}

}  // namespace softib::hca
