// read() on a context's async event file and on completion channels: softibd's and the engines' records come out as
// what the kernel's uverbs gives.
#pragma once

#include <sys/types.h>

#include "base/types.h"
#include "ipc/segment.h"

namespace softib::shim {

// Bytes or -errno. `size` is what the program has room for; one event per call, as with the kernel.
ssize_t read_async_event(ipc::Segment& segment, int fd, void* buffer, size_t size);
ssize_t read_completion_event(ipc::Segment& segment, int fd, void* buffer, size_t size);

}  // namespace softib::shim
