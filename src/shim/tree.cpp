#include "shim/tree.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace softib::shim {

constinit std::atomic<Tree::State> Tree::state_{Tree::State::unknown};
constinit Tree Tree::instance_{};

// System calls are made directly here: this runs inside the first intercepted call, before the C library's versions are
// known, and must not come back here through them.
bool Tree::exists(const char* path) {
  int kept = errno;
  bool found = ::syscall(SYS_faccessat, AT_FDCWD, path, F_OK) == 0;
  errno = kept;
  return found;
}

bool Tree::set_root(std::string_view folder, std::string_view host) {
  while (folder.ends_with('/')) folder.remove_suffix(1);
  constexpr std::string_view hosts = "/hosts/";
  if (folder.size() + hosts.size() + host.size() >= sizeof root_) return false;
  std::string_view name = folder.substr(folder.rfind('/') + 1);
  if (name.size() >= sizeof fabric_) return false;
  fabric_length_ = name.copy(fabric_, name.size());
  for (std::string_view part : {folder, hosts, host}) root_length_ += part.copy(root_ + root_length_, part.size());
  return true;
}

// The kernel names files of the tree by their real path (getcwd, realpath), so the root is one, too.
void Tree::resolve_links() {
  int fd = static_cast<int>(::syscall(SYS_openat, AT_FDCWD, root_, O_PATH | O_CLOEXEC, 0));
  if (fd < 0) return;
  char link[32];
  std::snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  char real[max_root];
  long length = ::syscall(SYS_readlinkat, AT_FDCWD, link, real, sizeof real);
  ::syscall(SYS_close, fd);
  if (length <= 0 || static_cast<size_t>(length) >= sizeof real || real[0] != '/') return;
  std::memcpy(root_, real, static_cast<size_t>(length));
  root_[length] = '\0';
  root_length_ = static_cast<size_t>(length);
}

bool Tree::read_environment() {
  const char* folder = ::getenv("SOFTIB_FABRIC_DIR");
  const char* host = ::getenv("SOFTIB_HOST");
  if (!folder || !*folder || !host || !*host) return false;
  static constinit std::atomic<bool> told{false};
  if (folder[0] != '/' || std::strchr(host, '/') || !set_root(folder, host)) {
    tell_once(told,
              "softib: SOFTIB_FABRIC_DIR must be an absolute path of at most 900 characters and SOFTIB_HOST a "
              "host's name, as 'softib env HOST' prints them; running without a fabric\n");
    return false;
  }
  resolve_links();
  return true;
}

const Tree* Tree::look() {
  if (!environ) return nullptr;  // too early: libc has not seen the environment yet
  State expected = State::unknown;
  if (state_.compare_exchange_strong(expected, State::looking, std::memory_order_acq_rel)) {
    int kept = errno;
    State found = instance_.read_environment() ? State::on : State::off;
    errno = kept;
    state_.store(found, std::memory_order_release);
    return found == State::on ? &instance_ : nullptr;
  }
  while (state_.load(std::memory_order_acquire) == State::looking) ::sched_yield();
  return find();
}

Result<std::string> read_attribute(const std::string& path) {
  int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return fail(errno);
  char text[4096];
  ssize_t length = ::read(fd, text, sizeof text);
  int error = errno;
  ::close(fd);
  if (length < 0) return fail(error);
  std::string_view value(text, static_cast<size_t>(length));
  while (value.ends_with('\n')) value.remove_suffix(1);
  return std::string(value);
}

void tell_once(std::atomic<bool>& told, std::string_view text) {
  if (told.exchange(true, std::memory_order_relaxed)) return;
  [[maybe_unused]] long written = ::syscall(SYS_write, STDERR_FILENO, text.data(), text.size());
}

}  // namespace softib::shim
