#include "shim/tree.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>

#include "ipc/protocol.h"
#include "shim/questions.h"

namespace softib::shim {

constinit std::atomic<Tree::State> Tree::state_{Tree::State::unknown};
constinit Tree Tree::instance_{};

namespace {

constexpr size_t max_host = 256;

// System calls are made directly here: this runs inside the first intercepted call, before the C library's versions are
// known, and must not come back here through them.
bool is_path(const char* path) {
  int kept = errno;
  bool found = ::syscall(SYS_faccessat, AT_FDCWD, path, F_OK) == 0;
  errno = kept;
  return found;
}

// The folder without links in its path, where there are some and it can be told: the kernel names files of the tree
// (getcwd, realpath) so.
std::string_view without_links(const char* folder, std::span<char> room) {
  int fd = static_cast<int>(::syscall(SYS_openat, AT_FDCWD, folder, O_PATH | O_CLOEXEC, 0));
  if (fd < 0) return folder;
  char link[32];
  std::snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  long length = ::syscall(SYS_readlinkat, AT_FDCWD, link, room.data(), room.size());
  ::syscall(SYS_close, fd);
  if (length <= 0 || static_cast<size_t>(length) >= room.size() || room[0] != '/') return folder;
  return {room.data(), static_cast<size_t>(length)};
}

std::string_view why_not(Errno error) {
  switch (to_int(error)) {
    case ECONNREFUSED:
    case ENOENT:
      return "it is not running; start it with 'softib up'";
    case ENODEV:
      return "it has no such host";
    case EPERM:
      return "that is an aggregation node, on which nobody runs programs";
    case ENOSYS:
      return "it was started by another version of softib; restart it with 'softib down' and 'softib up'";
    default:
      return "its daemon can't make them; see daemon.log in its folder";
  }
}

}  // namespace

bool Tree::is_there() const { return is_path(root_); }

// A path of the real machine's PCI devices may be one of the fabric's, which only the tree tells.
bool Tree::exists(const char* path) {
  if (is_path(path)) return true;
  return !instance_.is_there() && instance_.ready() && is_path(path);
}

bool Tree::ready() const {
  if (is_there()) return true;
  int kept = errno;
  ipc::PrepareHost::Request request{};
  host().copy(request.host, sizeof request.host - 1);
  auto made = ask_daemon<ipc::PrepareHost>(folder(), request);
  if (!made) {
    static constinit std::atomic<bool> told{false};
    tell_once(told, "softib: no files of host '" + std::string(host()) + "' of fabric '" + std::string(fabric()) +
                        "': " + std::string(why_not(made.error())) + "\n");
  }
  errno = kept;
  return made.has_value();
}

bool Tree::set_root(std::string_view folder, std::string_view host) {
  while (folder.ends_with('/')) folder.remove_suffix(1);
  if (folder.size() + hosts.size() + host.size() >= sizeof root_) return false;
  root_length_ = 0;
  for (std::string_view part : {folder, hosts, host}) root_length_ += part.copy(root_ + root_length_, part.size());
  root_[root_length_] = '\0';
  return true;
}

bool Tree::set_fabric(std::string_view folder) {
  while (folder.ends_with('/')) folder.remove_suffix(1);
  std::string_view name = folder.substr(folder.rfind('/') + 1);
  if (name.size() >= sizeof fabric_) return false;
  fabric_length_ = name.copy(fabric_, name.size());
  return true;
}

bool Tree::read_environment() {
  const char* folder = ::getenv("SOFTIB_FABRIC_DIR");
  const char* host = ::getenv("SOFTIB_HOST");
  char place[max_host];
  if (folder && *folder == '/' && !ipc::host_of_place(folder, place).empty()) host = place;
  if (!folder || !*folder || !host || !*host) return false;
  static constinit std::atomic<bool> told{false};
  char room[max_root];
  if (folder[0] != '/' || std::strchr(host, '/') || !set_fabric(folder) ||
      !set_root(without_links(folder, room), host)) {
    tell_once(told,
              "softib: SOFTIB_FABRIC_DIR must be an absolute path of at most 900 characters and SOFTIB_HOST a "
              "host's name, as 'softib env HOST' prints them; running without a fabric\n");
    return false;
  }
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
