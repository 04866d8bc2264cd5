// The calls as this library's own code makes them: the linker's --wrap sends its `close` to `__wrap_close`, defined
// here, so that ipc, hca and kernel meet the C library and not the wrappers.
//
// Descriptors that this code makes are the library's own until they are handed to the program (files.h): marking them
// here, where they come to be, misses none, whichever layer holds them.
#include "ipc/passed_fds.h"
#include "shim/fd_table.h"
#include "shim/libc.h"

namespace softib::shim {

namespace {

struct Plain {
#define SOFTIB_CALL(result, name, parameters, arguments) \
  static result name parameters { return libc::name arguments; }
#define SOFTIB_PATH(result, name, dirfd, parameters, arguments) SOFTIB_CALL(result, name, parameters, arguments)
#define SOFTIB_STAT(result, name, dirfd, parameters, arguments) SOFTIB_CALL(result, name, parameters, arguments)
#define SOFTIB_OPEN(result, name, dirfd, flags, parameters, arguments) SOFTIB_CALL(result, name, parameters, arguments)
#include "shim/calls.def"
#undef SOFTIB_CALL
};

int own(int fd) {
  if (fd >= 0) fd_table().set_own(fd);
  return fd;
}

// Hides the plain versions of those calls that make or end a descriptor.
struct Inner : Plain {
  static int socket(int domain, int type, int protocol) { return own(libc::socket(domain, type, protocol)); }
  static int dup(int fd) { return own(libc::dup(fd)); }
  static int fcntl(int fd, int command, void* argument) {
    int result = libc::fcntl(fd, command, argument);
    return command == F_DUPFD || command == F_DUPFD_CLOEXEC ? own(result) : result;
  }
  static int fcntl64(int fd, int command, void* argument) { return fcntl(fd, command, argument); }
  static ssize_t recvmsg(int fd, msghdr* message, int flags) {
    ssize_t got = libc::recvmsg(fd, message, flags);
    if (got >= 0 && message->msg_controllen > 0) ipc::for_each_passed_fd(*message, own);
    return got;
  }
  static int close(int fd) {
    fd_table().clear(fd);
    return libc::close(fd);
  }
};

}  // namespace

#define SOFTIB_CALL(result, name, parameters, arguments)                     \
  extern "C" result softib_inner_##name parameters __asm__("__wrap_" #name); \
  extern "C" result softib_inner_##name parameters { return Inner::name arguments; }
#include "shim/calls.def"
#undef SOFTIB_CALL
#undef SOFTIB_PATH
#undef SOFTIB_STAT
#undef SOFTIB_OPEN

}  // namespace softib::shim
