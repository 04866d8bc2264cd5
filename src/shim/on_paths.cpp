// Wrappers of calls that take or give a path and need more than a redirect.
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <cstring>

#include "shim/counter_file.h"
#include "shim/device_nodes.h"
#include "shim/libc.h"
#include "shim/on.h"
#include "shim/rdma_cm_file.h"
#include "shim/umad_file.h"

namespace softib::shim {

namespace {

// sysfs refuses to open a file for writing that nobody may write, to root as well; new files can't be made there.
int refuse_writing(const Redirect& path, int flags) {
  bool writes = (flags & O_ACCMODE) != O_RDONLY || (flags & (O_CREAT | O_TRUNC));
  if (!writes || (flags & O_PATH)) return 0;
  struct stat status;
  if (libc::stat(path.text(), &status) != 0) return flags & O_CREAT ? -EACCES : 0;
  if (S_ISDIR(status.st_mode)) return 0;
  return status.st_mode & (S_IWUSR | S_IWGRP | S_IWOTH) ? 0 : -EACCES;
}

template <typename Status>
int stat_at(int dirfd, const char* path, Status* status, int flags, int (*real)(int, const char*, Status*, int)) {
  Redirect redirect(path, dirfd);
  int done = real(dirfd, redirect.text(), status, flags);
  if (done != 0) return done;
  if (redirect.is_device())
    show_device(*status, redirect.device());
  else if (flags & AT_EMPTY_PATH && path && !*path)
    show_descriptor(dirfd, *status);
  return 0;
}

// The old stat calls, by the system call that glibc's newer ones make; the layout is the same.
template <typename Status>
int old_stat(int dirfd, const char* path, Status* status, int flags) {
  return stat_at<Status>(dirfd, path, status, flags, [](int folder, const char* name, Status* out, int how) {
    return static_cast<int>(::syscall(SYS_newfstatat, folder, name, out, how));
  });
}

// readlink cuts off what does not fit, so the kernel's answer is taken whole first.
ssize_t read_link(int dirfd, const char* path, char* buffer, size_t size) {
  Redirect redirect(path, dirfd);
  if (!Tree::find()) return libc::readlinkat(dirfd, path, buffer, size);
  if (size == 0 || size > SSIZE_MAX) return libc::readlinkat(dirfd, redirect.text(), buffer, size);
  char whole[PATH_MAX + max_root];
  ssize_t length = libc::readlinkat(dirfd, redirect.text(), whole, sizeof whole);
  if (length < 0) return length;
  size_t known = std::min(as_program_knows(whole, static_cast<size_t>(length)), size);
  std::memcpy(buffer, whole, known);
  return static_cast<ssize_t>(known);
}

char* known_name(char* path) {
  if (path) path[as_program_knows(path, std::strlen(path))] = '\0';
  return path;
}

// glob() opens folders by itself, out of the wrappers' reach, unless it is given functions for that.
template <typename Glob>
void use_wrappers(Glob& found);

template <>
void use_wrappers(glob_t& found) {
  found.gl_opendir = [](const char* path) -> void* { return libc::opendir(Redirect(path).text()); };
  found.gl_readdir = [](void* folder) { return ::readdir(static_cast<DIR*>(folder)); };
  found.gl_closedir = [](void* folder) { ::closedir(static_cast<DIR*>(folder)); };
  found.gl_stat = [](const char* path, struct stat* status) { return libc::stat(Redirect(path).text(), status); };
  found.gl_lstat = [](const char* path, struct stat* status) { return libc::lstat(Redirect(path).text(), status); };
}

template <>
void use_wrappers(glob64_t& found) {
  found.gl_opendir = [](const char* path) -> void* { return libc::opendir(Redirect(path).text()); };
  found.gl_readdir = [](void* folder) { return ::readdir64(static_cast<DIR*>(folder)); };
  found.gl_closedir = [](void* folder) { ::closedir(static_cast<DIR*>(folder)); };
  found.gl_stat = [](const char* path, struct stat64* status) { return libc::stat64(Redirect(path).text(), status); };
  found.gl_lstat = [](const char* path, struct stat64* status) { return libc::lstat64(Redirect(path).text(), status); };
}

template <typename Glob>
int glob_in_tree(const char* pattern, int flags, int (*on_error)(const char*, int), Glob* found,
                 int (*real)(const char*, int, int (*)(const char*, int), Glob*)) {
  bool ours = Tree::find() && pattern && found && !(flags & GLOB_ALTDIRFUNC) &&
              (may_lead_into_tree(pattern) || std::strncmp(pattern, "/sys/", 5) == 0);
  if (!ours) return real(pattern, flags, on_error, found);
  use_wrappers(*found);
  return real(pattern, flags | GLOB_ALTDIRFUNC, on_error, found);
}

// Only for reading: a counter's file refuses anything else by itself.
FILE* open_stream(const char* path, const char* mode, FILE* (*real)(const char*, const char*)) {
  Redirect redirect(path);
  const bool reads = mode && mode[0] == 'r' && !std::strchr(mode, '+');
  auto counter = reads ? counter_at(redirect) : std::nullopt;
  if (!counter) return real(redirect.text(), mode);
  auto now = counter_now(*counter);
  if (!now && to_int(now.error()) == EOPNOTSUPP) return real(redirect.text(), mode);
  if (!now) {
    errno = to_int(now.error());
    return nullptr;
  }
  auto file = hand_over_plain(std::move(*now), std::strchr(mode, 'e') != nullptr);
  FILE* stream = ::fdopen(file.get(), mode);
  if (stream) static_cast<void>(file.release());
  return stream;
}

Result<int> open_node(DeviceNode node, int flags) {
  switch (node.kind) {
    case DeviceKind::uverbs:
      return open_device(node.number, flags);
    case DeviceKind::rdma_cm:
      return open_rdma_cm(flags);
    default:
      return open_umad(node, flags);
  }
}

}  // namespace

std::optional<int> open_special(const Redirect& path, int flags) {
  if (path.is_device() && !(flags & O_PATH)) {
    auto opened = open_node(path.device(), flags);
    return opened ? *opened : -to_int(opened.error());
  }
  int refused = refuse_writing(path, flags);
  if (refused) return refused;
  if (flags & O_PATH) return std::nullopt;
  auto counter = counter_at(path);
  if (!counter) return std::nullopt;
  auto opened = open_counter(*counter, flags);
  if (!opened && to_int(opened.error()) == EOPNOTSUPP) return std::nullopt;
  return opened ? *opened : -to_int(opened.error());
}

namespace on {

FILE* fopen(const char* path, const char* mode) { return open_stream(path, mode, libc::fopen); }

FILE* fopen64(const char* path, const char* mode) { return open_stream(path, mode, libc::fopen64); }

int fstatat(int dirfd, const char* path, struct stat* status, int flags) {
  return stat_at(dirfd, path, status, flags, libc::fstatat);
}

int fstatat64(int dirfd, const char* path, struct stat64* status, int flags) {
  return stat_at(dirfd, path, status, flags, libc::fstatat64);
}

int statx(int dirfd, const char* path, int flags, unsigned mask, struct statx* status) {
  Redirect redirect(path, dirfd);
  int done = libc::statx(dirfd, redirect.text(), flags, mask, status);
  if (done != 0) return done;
  DeviceNode node = redirect.device();
  bool device = redirect.is_device();
  if (!device && flags & AT_EMPTY_PATH && path && !*path) device = is_device_file(dirfd, status->stx_mode, node);
  if (device) show_device(*status, node);
  return 0;
}

int fstat(int fd, struct stat* status) {
  int done = libc::fstat(fd, status);
  return done == 0 ? show_descriptor(fd, *status) : done;
}

int fstat64(int fd, struct stat64* status) {
  int done = libc::fstat64(fd, status);
  return done == 0 ? show_descriptor(fd, *status) : done;
}

int __xstat(int, const char* path, struct stat* status) { return old_stat(AT_FDCWD, path, status, 0); }
int __xstat64(int, const char* path, struct stat64* status) { return old_stat(AT_FDCWD, path, status, 0); }
int __lxstat(int, const char* path, struct stat* status) {
  return old_stat(AT_FDCWD, path, status, AT_SYMLINK_NOFOLLOW);
}
int __lxstat64(int, const char* path, struct stat64* status) {
  return old_stat(AT_FDCWD, path, status, AT_SYMLINK_NOFOLLOW);
}
int __fxstat(int, int fd, struct stat* status) { return old_stat(fd, "", status, AT_EMPTY_PATH); }
int __fxstat64(int, int fd, struct stat64* status) { return old_stat(fd, "", status, AT_EMPTY_PATH); }
int __fxstatat(int, int dirfd, const char* path, struct stat* status, int flags) {
  return old_stat(dirfd, path, status, flags);
}
int __fxstatat64(int, int dirfd, const char* path, struct stat64* status, int flags) {
  return old_stat(dirfd, path, status, flags);
}

ssize_t readlink(const char* path, char* buffer, size_t size) {
  if (!Tree::find()) return libc::readlink(path, buffer, size);
  return read_link(AT_FDCWD, path, buffer, size);
}

ssize_t __readlink_chk(const char* path, char* buffer, size_t size, size_t room) {
  if (!Tree::find() || size > room) return libc::__readlink_chk(path, buffer, size, room);
  return read_link(AT_FDCWD, path, buffer, size);
}

ssize_t readlinkat(int dirfd, const char* path, char* buffer, size_t size) {
  return read_link(dirfd, path, buffer, size);
}

ssize_t __readlinkat_chk(int dirfd, const char* path, char* buffer, size_t size, size_t room) {
  if (!Tree::find() || size > room) return libc::__readlinkat_chk(dirfd, path, buffer, size, room);
  return read_link(dirfd, path, buffer, size);
}

char* realpath(const char* path, char* resolved) { return known_name(libc::realpath(Redirect(path).text(), resolved)); }

char* __realpath_chk(const char* path, char* resolved, size_t room) {
  return known_name(libc::__realpath_chk(Redirect(path).text(), resolved, room));
}

char* canonicalize_file_name(const char* path) {
  return known_name(libc::canonicalize_file_name(Redirect(path).text()));
}

char* getcwd(char* buffer, size_t size) { return known_name(libc::getcwd(buffer, size)); }

int glob(const char* pattern, int flags, int (*on_error)(const char*, int), glob_t* found) {
  return glob_in_tree(pattern, flags, on_error, found, libc::glob);
}

int glob64(const char* pattern, int flags, int (*on_error)(const char*, int), glob64_t* found) {
  return glob_in_tree(pattern, flags, on_error, found, libc::glob64);
}

}  // namespace on

}  // namespace softib::shim
