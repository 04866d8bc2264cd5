// Scatter/gather lists whose keys have been checked.
#pragma once

#include "abi/rxe.h"
#include "hca/engine/keys.h"
#include "hca/engine/verbs.h"

namespace softib::hca {

inline constexpr u32 max_pieces = 33;  // limits::max_sge, and one for a header

struct Buffers {
  u32 count = 0;
  u64 total = 0;
  MemoryRef pieces[max_pieces];

  void add(const MemoryRef& piece) {
    if (piece.length == 0 || count == max_pieces) return;
    pieces[count++] = piece;
    total += piece.length;
  }
};

// Checks `count` SGEs and adds them; stops when `wanted` bytes are covered (a receive that is longer than the message
// has its surplus keys unchecked, as an HCA never reads that far). False: a bad key.
bool add_sges(Context& context, Buffers& buffers, const rxe_sge* sges, u32 count, u32 pd, LocalUse use, u64 wanted);

// Moves `length` bytes from one list to the other, starting `skip` bytes into `to`; both are long enough.
Result<void> transfer(Context& context, const Buffers& to, u64 skip, const Buffers& from, u64 length);

}  // namespace softib::hca
