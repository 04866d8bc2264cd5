// The wrappers that are written by hand, one function per SOFTIB_CALL row of calls.def: on_paths.cpp, on_files.cpp,
// on_sockets.cpp, on_memory.cpp.
#pragma once

#include <dirent.h>
#include <fcntl.h>
#include <glob.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/utsname.h>

#include <optional>

#include "shim/ours.h"

namespace softib::shim {

namespace on {

#define SOFTIB_CALL(result, name, parameters, arguments) result name parameters;
#define SOFTIB_PATH(result, name, dirfd, parameters, arguments)
#define SOFTIB_STAT(result, name, dirfd, parameters, arguments)
#define SOFTIB_OPEN(result, name, dirfd, flags, parameters, arguments)
#include "shim/calls.def"
#undef SOFTIB_CALL
#undef SOFTIB_PATH
#undef SOFTIB_STAT
#undef SOFTIB_OPEN

}  // namespace on

// An open() of something of ours: the new descriptor or -errno; nothing where the file of the tree should just be
// opened.
std::optional<int> open_special(const Redirect& path, int flags);

// A descriptor that libc has just given: whatever the table still says about that number is out of date (the last owner
// of the number was closed by a raw system call).
inline int fresh(int fd) {
  if (fd >= 0 && classify(fd).kind != FdClass::none) [[unlikely]]
    fd_table().clear(fd);
  return fd;
}

}  // namespace softib::shim
