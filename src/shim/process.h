// Fork, and telling this process from a child of vfork that runs in its memory.
#pragma once

namespace softib::shim {

// Registers the fork handlers and remembers whose memory this is. Called when the first descriptor becomes ours.
void watch_forks();

// A child of vfork() or posix_spawn() has its own descriptors but works on our memory: what it closes or duplicates
// must not change the table. One system call, so asked only about descriptors that are ours.
bool owns_memory();

}  // namespace softib::shim
