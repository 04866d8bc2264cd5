// The C library's own versions of the calls in calls.def, resolved on first use.
//
// Within the preload library these are reached in two ways: the wrappers call softib::shim::libc::NAME; everything else
// that is linked in (ipc, hca, kernel, libstdc++) calls NAME as usual, and the linker's --wrap turns that into the C
// library's version, never into the wrapper.
#pragma once

#include <dirent.h>
#include <fcntl.h>
#include <glob.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <sys/utsname.h>

#include <atomic>

#include "base/types.h"

namespace softib::shim::libc {

enum class Call : u16 {
#define SOFTIB_CALL(result, name, parameters, arguments) name,
#define SOFTIB_PATH(result, name, dirfd, parameters, arguments) name,
#define SOFTIB_STAT(result, name, dirfd, parameters, arguments) name,
#define SOFTIB_OPEN(result, name, dirfd, flags, parameters, arguments) name,
#include "shim/calls.def"
#undef SOFTIB_CALL
#undef SOFTIB_PATH
#undef SOFTIB_STAT
#undef SOFTIB_OPEN
  count
};

inline constinit std::atomic<void*> addresses[static_cast<u32>(Call::count)]{};

// Looks the call up. Never fails: a call that this C library lacks gets a stand-in that answers ENOSYS.
void* resolve(Call call);

inline void* address_of(Call call) {
  void* address = addresses[static_cast<u32>(call)].load(std::memory_order_acquire);
  return address ? address : resolve(call);
}

#define SOFTIB_CALL(result, name, parameters, arguments)                 \
  inline result name parameters {                                        \
    using Function = result(*) parameters;                               \
    return reinterpret_cast<Function>(address_of(Call::name)) arguments; \
  }
#define SOFTIB_PATH(result, name, dirfd, parameters, arguments) SOFTIB_CALL(result, name, parameters, arguments)
#define SOFTIB_STAT(result, name, dirfd, parameters, arguments) SOFTIB_CALL(result, name, parameters, arguments)
#define SOFTIB_OPEN(result, name, dirfd, flags, parameters, arguments) SOFTIB_CALL(result, name, parameters, arguments)
#include "shim/calls.def"
#undef SOFTIB_CALL
#undef SOFTIB_PATH
#undef SOFTIB_STAT
#undef SOFTIB_OPEN

}  // namespace softib::shim::libc
