#include "daemon/event_pipe.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <string>

namespace softib::daemon {

Result<PipeEnds> make_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) < 0) return fail(errno);
  PipeEnds made{Fd(ends[0]), Fd(ends[1])};
  if (::fcntl(made.write.get(), F_SETFL, O_NONBLOCK) < 0) return fail(errno);
  return made;
}

void grow_pipe(const Fd& write_end, u64 bytes) {
  constexpr u64 most = 1 << 20;  // what an unprivileged process may have, by default
  int now = ::fcntl(write_end.get(), F_GETPIPE_SZ);
  if (now >= 0 && static_cast<u64>(now) < bytes)
    (void)::fcntl(write_end.get(), F_SETPIPE_SZ, static_cast<int>(std::min(bytes, most)));
}

Result<void> write_record(const Fd& write_end, const void* record, size_t size) {
  // Records are far below PIPE_BUF: written whole or not at all.
  return ::write(write_end.get(), record, size) < 0 ? fail(errno) : Result<void>{};
}

Fd open_reader(const Fd& write_end) {
  std::string path = "/proc/self/fd/" + std::to_string(write_end.get());
  return Fd(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
}

namespace detail {

std::vector<u8> take_all(const Fd& write_end) {
  Fd reader = open_reader(write_end);
  std::vector<u8> bytes;
  if (!reader) return bytes;
  constexpr size_t step = 4096;
  for (;;) {
    size_t filled = bytes.size();
    bytes.resize(filled + step);
    ssize_t got = ::read(reader.get(), bytes.data() + filled, step);
    bytes.resize(filled + static_cast<size_t>(got > 0 ? got : 0));
    if (got <= 0) return bytes;
  }
}

}  // namespace detail

}  // namespace softib::daemon
