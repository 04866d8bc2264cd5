#include "fabric/runtime.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "base/error_text.h"
#include "fabric/error.h"

namespace softib::fabric {

namespace {

constexpr mode_t private_mode = 0700;
constexpr mode_t others = 0077;

bool is_folder(const char* path) {
  struct stat info {};
  return ::stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

Result<void> write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    ssize_t written = ::write(fd, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return fail(errno);
    text.remove_prefix(static_cast<size_t>(written));
  }
  return {};
}

bool accepts(const std::string& dir) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::string path = dir + "/daemon.sock";
  if (path.size() >= sizeof address.sun_path) return false;
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  Fd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) return false;
  // EAGAIN: there, with a full backlog.
  return ::connect(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0 || errno == EAGAIN;
}

bool lock_is_held(const std::string& dir) {
  Fd lock(::open((dir + "/lock").c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  return lock && ::flock(lock.get(), LOCK_SH | LOCK_NB) < 0 && errno == EWOULDBLOCK;
}

}  // namespace

std::string runtime_dir() {
  if (const char* own = std::getenv("SOFTIB_RUNTIME_DIR"); own && *own) {
    // softibd and programs on the fabric run in other folders.
    std::error_code ignored;
    return std::filesystem::absolute(own, ignored).lexically_normal();
  }
  if (const char* xdg = std::getenv("XDG_RUNTIME_DIR"); xdg && *xdg == '/' && is_folder(xdg))
    return std::string(xdg) + "/softib";
  return fmt::format("/tmp/softib-{}", ::getuid());
}

std::string fabric_dir(std::string_view fabric) { return fmt::format("{}/{}", runtime_dir(), fabric); }

Parsed<Fd> open_private_dir(const std::string& path, bool create) {
  if (create && ::mkdir(path.c_str(), private_mode) < 0 && errno != EEXIST)
    return refuse(fmt::format("cannot make {}: {}", path, error_text()));
  Fd dir(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!dir && (errno == ELOOP || errno == ENOTDIR))
    return refuse(fmt::format("{} is not a folder but a link or a file; remove it or set SOFTIB_RUNTIME_DIR", path));
  if (!dir) return refuse(fmt::format("cannot open {}: {}", path, error_text()));
  struct stat info {};
  if (::fstat(dir.get(), &info) < 0) return refuse(fmt::format("cannot look at {}: {}", path, error_text()));
  if (info.st_uid != ::geteuid())
    return refuse(
        fmt::format("{} belongs to user {}, not to you ({}); set SOFTIB_RUNTIME_DIR", path, info.st_uid, ::geteuid()));
  if (info.st_mode & others)
    return refuse(
        fmt::format("{} is open to other users (mode {:04o}); say 'chmod 700 {}'", path, info.st_mode & 07777, path));
  return dir;
}

Result<Fd> take_lock(const std::string& dir) {
  Fd lock(::open((dir + "/lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!lock) return fail(errno);
  for (int tries = 0; tries < 50; ++tries) {
    if (::flock(lock.get(), LOCK_EX | LOCK_NB) == 0) return lock;
    if (errno != EWOULDBLOCK && errno != EINTR) return fail(errno);
    ::usleep(10'000);
  }
  return fail(EWOULDBLOCK);
}

Liveness liveness(const std::string& dir) {
  struct stat info {};
  if (::lstat(dir.c_str(), &info) < 0) return Liveness::absent;
  return accepts(dir) || lock_is_held(dir) ? Liveness::running : Liveness::stale;
}

std::vector<std::string> fabrics_in(const std::string& runtime) {
  std::vector<std::string> names;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(runtime, ignored)) {
    std::string name = entry.path().filename();
    if (valid_fabric_name(name) && entry.symlink_status(ignored).type() == std::filesystem::file_type::directory)
      names.push_back(std::move(name));
  }
  std::sort(names.begin(), names.end());
  return names;
}

Result<void> write_file(const std::string& path, std::string_view text, mode_t mode) {
  std::string fresh = path + ".new";
  Fd file(::open(fresh.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, mode));
  if (!file) return fail(errno);
  if (auto written = write_all(file.get(), text); !written) {
    ::unlink(fresh.c_str());
    return written;
  }
  if (::rename(fresh.c_str(), path.c_str()) < 0) return fail(errno);
  return {};
}

Result<std::string> read_file(const std::string& path) {
  Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) return fail(errno);
  std::string text;
  std::array<char, 16384> piece{};
  while (true) {
    ssize_t got = ::read(file.get(), piece.data(), piece.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return fail(errno);
    if (got == 0) return text;
    text.append(piece.data(), static_cast<size_t>(got));
  }
}

}  // namespace softib::fabric
