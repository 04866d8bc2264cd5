// The wrappers that the dynamic linker finds before the C library's calls, generated from calls.def. The C++ names
// differ from the exported ones, so that the headers' own declarations are not in the way.
#include "shim/device_nodes.h"
#include "shim/libc.h"
#include "shim/on.h"
#include "shim/ours.h"

namespace softib::shim {

namespace {
constexpr int creating = O_CREAT | O_WRONLY | O_TRUNC;
}

#define SOFTIB_EXPORT(result, name, parameters)                                                            \
  extern "C" __attribute__((visibility("default"))) result softib_export_##name parameters __asm__(#name); \
  extern "C" result softib_export_##name parameters

#define SOFTIB_CALL(result, name, parameters, arguments) \
  SOFTIB_EXPORT(result, name, parameters) { return on::name arguments; }

// Libraries that cache registrations (UCX, Open MPI, libfabric) write a jump to their own code over the `munmap` that
// dlsym() finds, and make the system call themselves. That has to be the C library's, behind these wrappers, not one of
// them. Programs ask for the C library's version of a name and get this one; dlsym() asks for none and passes it by,
// since it is not the default one.
#define SOFTIB_HOOK(result, name, parameters, arguments)                                   \
  extern "C" __attribute__((visibility("default"), symver(#name "@" SOFTIB_LIBC_VERSION))) \
  result softib_hook_##name parameters;                                                    \
  extern "C" result softib_hook_##name parameters { return on::name arguments; }

#define SOFTIB_PATH(result, name, dirfd, parameters, arguments) \
  SOFTIB_EXPORT(result, name, parameters) {                     \
    Redirect redirect(path, dirfd);                             \
    path = redirect.text();                                     \
    return libc::name arguments;                                \
  }

#define SOFTIB_STAT(result, name, dirfd, parameters, arguments)                     \
  SOFTIB_EXPORT(result, name, parameters) {                                         \
    Redirect redirect(path, dirfd);                                                 \
    path = redirect.text();                                                         \
    result done = libc::name arguments;                                             \
    if (done == 0 && redirect.is_device()) show_device(*status, redirect.device()); \
    return done;                                                                    \
  }

#define SOFTIB_OPEN(result, name, dirfd, flags, parameters, arguments)          \
  SOFTIB_EXPORT(result, name, parameters) {                                     \
    Redirect redirect(path, dirfd);                                             \
    if (!redirect.is_plain()) {                                                 \
      if (auto opened = open_special(redirect, flags)) return to_libc(*opened); \
    }                                                                           \
    path = redirect.text();                                                     \
    return fresh(libc::name arguments);                                         \
  }

#include "shim/calls.def"

}  // namespace softib::shim
