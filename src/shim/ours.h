// "Ours or libc's?": the one place where that is decided, for paths and for descriptors. Wrappers ask here and forward.
#pragma once

#include <fcntl.h>

#include "shim/fd_table.h"
#include "shim/paths.h"
#include "shim/tree.h"

namespace softib::shim {

// Where a path leads. text() is the path to hand to libc in its place: the same pointer for what is not ours.
class Redirect {
 public:
  explicit Redirect(const char* path, int dirfd = AT_FDCWD) : text_(path) {
    if (const Tree* tree = Tree::find()) [[unlikely]]
      if (path) look(*tree, path, dirfd);
  }
  Redirect(const Redirect&) = delete;
  Redirect& operator=(const Redirect&) = delete;

  [[nodiscard]] const char* text() const { return text_; }
  [[nodiscard]] bool is_plain() const { return mapping_.kind == PathKind::plain; }
  [[nodiscard]] bool is_device() const { return mapping_.kind == PathKind::device; }
  [[nodiscard]] DeviceNode device() const { return mapping_.device; }

 private:
  void look(const Tree& tree, const char* path, int dirfd);

  const char* text_;
  Mapping mapping_;
  PathBuffer buffer_;  // left unset until needed
};

// What a descriptor is. `received` ones that turn out to be command files come out as such.
[[nodiscard]] inline FdTable::Entry classify(int fd) { return fd_table().find(fd); }

// The same for a call that only a command file would get: finds out about `received` descriptors, and about unknown
// ones (inherited through exec).
[[nodiscard]] FdClass classify_device_call(int fd);

// Gives the path as the program knows it for one that the kernel named, in place; the new length.
size_t as_program_knows(char* path, size_t length);

// The boundary: what is -errno inside becomes -1 and errno.
template <typename T>
T to_libc(T result) {
  if (result >= 0) return result;
  errno = static_cast<int>(-result);
  return -1;
}

}  // namespace softib::shim
