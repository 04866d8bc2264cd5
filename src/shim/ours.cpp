#include "shim/ours.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "shim/files.h"

namespace softib::shim {

namespace {

// The folder that a relative path starts from; 0 if it can't be told.
size_t folder_of(int dirfd, char* out, size_t room) {
  long length;
  if (dirfd == AT_FDCWD) {
    length = ::syscall(SYS_getcwd, out, room) - 1;  // counts the final zero
  } else {
    char link[32];
    std::snprintf(link, sizeof link, "/proc/self/fd/%d", dirfd);
    length = ::syscall(SYS_readlinkat, AT_FDCWD, link, out, room);
  }
  return length > 0 && static_cast<size_t>(length) < room && out[0] == '/' ? static_cast<size_t>(length) : 0;
}

}  // namespace

void Redirect::look(const Tree& tree, const char* path, int dirfd) {
  std::string_view given(path);
  if (given.starts_with('/')) {
    mapping_ = tree.paths().map(given, buffer_);
  } else if (may_lead_into_tree(given)) {
    int kept = errno;
    char absolute[2 * PATH_MAX];
    size_t length = folder_of(dirfd, absolute, PATH_MAX);
    errno = kept;
    if (length == 0 || length + 1 + given.size() >= sizeof absolute) return;
    absolute[length] = '/';
    std::memcpy(absolute + length + 1, given.data(), given.size());
    mapping_ = tree.paths().map({absolute, length + 1 + given.size()}, buffer_);
  }
  if (is_plain()) return;
  text_ = buffer_;
  static_cast<void>(tree.ready());  // without it the call that follows finds nothing there, and says so
}

FdClass classify_device_call(int fd) {
  FdClass kind = classify(fd).kind;
  if (kind != FdClass::received && (kind != FdClass::none || !Tree::find())) return kind;
  return recognise_command_file(fd) ? FdClass::command : FdClass::none;
}

size_t as_program_knows(char* path, size_t length) {
  const Tree* tree = Tree::find();
  if (!tree) return length;
  auto known = strip_root({path, length}, tree->root());
  if (!known) return length;
  size_t kept = known->size();
  std::memmove(path, known->data(), kept);
  return kept;
}

}  // namespace softib::shim
