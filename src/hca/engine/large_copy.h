// Long copies. A store into a line that another core's cache holds needs that one's leave, and what this costs depends
// on the machine and on what the program at the other end does with the bytes: on two cores without a shared cache
// stores past the caches made an all-reduce of 1 MiB five times as fast, and ib_write_bw, whose server never looks,
// half as fast. So both are tried and timed, and the quicker one is used.
#pragma once

#include "base/quicker.h"

namespace softib::hca {

inline constexpr u64 large_copy_least = u64{16} << 10;

// Whose memory is written: what an RDMA READ brings is most often looked at by the core that copied it. Each kind is
// timed for itself.
enum class Target : u8 { peer, own };

// As memmove for ranges that are the same or don't overlap; whoever sees a store that comes after it sees all of it.
void copy_large(u8* to, const u8* from, u64 length, Target target);

// `streaming`: past the caches. The ranges as above.
enum class Stores : u8 { cached, streaming };
void copy_with(Stores stores, u8* to, const u8* from, u64 length);

using StoreChoice = Quicker<Stores>;

}  // namespace softib::hca
