#include "shim/counter_file.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <charconv>
#include <climits>
#include <cstdio>
#include <cstring>
#include <new>

#include "shim/files.h"
#include "shim/questions.h"

namespace softib::shim {

namespace {

Result<u64> ask(const ipc::ReadCounter::Request& what) {
  const Tree* tree = Tree::find();
  if (!tree) return fail(ENODEV);
  auto reply = ask_daemon<ipc::ReadCounter>(tree->folder(), what);
  if (reply) return reply->value;
  if (to_int(reply.error()) == EOPNOTSUPP || to_int(reply.error()) == ENODEV) return fail(reply.error());
  tell_lost_daemon();
  return fail(EIO);
}

bool write_value(int fd, u64 value) {
  char text[24];
  char* end = std::to_chars(text, text + sizeof text - 1, value).ptr;
  *end++ = '\n';
  return ::pwrite(fd, text, static_cast<size_t>(end - text), 0) == end - text && ::ftruncate(fd, end - text) == 0;
}

}  // namespace

std::optional<ipc::ReadCounter::Request> counter_at(const Redirect& path) {
  const Tree* tree = Tree::find();
  if (!tree || path.is_plain() || path.is_device() || !names_counter(path.text())) return std::nullopt;
  const Fd file(::open(path.text(), O_PATH | O_CLOEXEC));
  if (!file) return std::nullopt;
  char link[32];
  char real[PATH_MAX];
  std::snprintf(link, sizeof link, "/proc/self/fd/%d", file.get());
  const ssize_t length = ::readlink(link, real, sizeof real);
  if (length <= 0) return std::nullopt;
  auto place = counter_place({real, static_cast<size_t>(length)});
  if (!place) return std::nullopt;
  ipc::ReadCounter::Request what{};
  tree->host().copy(what.host, sizeof what.host - 1);
  place->device.copy(what.device, sizeof what.device - 1);
  what.port = place->port;
  what.counter = place->counter;
  return what;
}

Result<Fd> counter_now(const ipc::ReadCounter::Request& what) {
  auto value = ask(what);
  if (!value) return fail(value.error());
  Fd file(::memfd_create("counter", MFD_CLOEXEC));
  if (!file) return fail(errno);
  if (!write_value(file.get(), *value) || ::fchmod(file.get(), 0444) != 0) return fail(errno);
  return file;
}

Result<int> open_counter(const ipc::ReadCounter::Request& what, int flags) {
  if (flags & O_DIRECTORY) return fail(ENOTDIR);
  auto memory = counter_now(what);
  if (!memory) return fail(memory.error());
  struct stat status {};
  if (::fstat(memory->get(), &status) != 0) return fail(errno);
  std::unique_ptr<File> file(new (std::nothrow) CounterFile(what, status.st_dev, status.st_ino));
  if (!file) return fail(ENOMEM);
  return hand_over(std::move(*memory), FdClass::counter, std::move(file), (flags & O_CLOEXEC) != 0);
}

// The table may be behind: what was closed by fclose() has its number given to another file, which is not ours to
// write.
bool CounterFile::stands_behind(int fd) const {
  struct stat status {};
  return ::fstat(fd, &status) == 0 && status.st_dev == device_ && status.st_ino == inode_;
}

void CounterFile::refresh(int fd) {
  if (fresh_.exchange(false, std::memory_order_relaxed) || !stands_behind(fd)) return;
  if (auto value = ask(what_)) static_cast<void>(write_value(fd, *value));
}

void before_counter_read(int fd, off_t offset) {
  const int kept = errno;
  if (offset < 0) offset = ::lseek(fd, 0, SEEK_CUR);
  if (offset == 0) {
    FdTable::Pin pin = fd_table().pin(fd);
    if (pin.kind() == FdClass::counter) pin.as<CounterFile>().refresh(fd);
  }
  errno = kept;
}

}  // namespace softib::shim
