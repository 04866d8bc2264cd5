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
