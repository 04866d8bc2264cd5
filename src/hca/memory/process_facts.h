// What else goes on in this process that forbids moving a page.
#pragma once

#include "hca/memory.h"
#include "hca/memory/kernel_map.h"

namespace softib::hca {

// Threads of this process as the kernel counts them, 0 when it can't be known.
u32 count_threads();

// Bytes that this process has locked (mlock) and pinned (for devices, io_uring and the like).
struct HeldMemory {
  bool known = false;
  u64 locked = 0;
  u64 pinned = 0;
};
HeldMemory held_memory();

// Whether a library is loaded that pins the program's memory for a device without the kernel counting it: drivers of
// graphics processors (cudaHostRegister). Not to be called under a lock: the loader has one of its own.
bool may_pin_unseen();

// Whether the range, part of `mapping`, has memory of a thread that must stay what it is: the main stack, the stack of
// any thread with its control block, the stack that we run on now. `alone`: there is only this thread.
//
// The kernel writes there by itself (rseq, signal frames, the word cleared at a thread's end) and kills the program
// where it can't; and whoever moves pages must not wait for its own.
bool has_thread_memory(const Mapping& mapping, AddressRange range, bool alone);

}  // namespace softib::hca
