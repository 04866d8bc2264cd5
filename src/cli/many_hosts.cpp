#include "cli/many_hosts.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "base/error_text.h"
#include "base/fd.h"
#include "cli/commands/commands.h"
#include "cli/place.h"
#include "cli/waiting.h"

namespace softib::cli {

namespace {

struct Stream {
  Fd source;
  LineWriter lines;
};

struct Started {
  pid_t pid;
  Fd out;
  Fd err;
};

bool open_pipe(Fd& read_end, Fd& write_end) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) < 0) return false;
  read_end.reset(ends[0]);
  write_end.reset(ends[1]);
  return true;
}

// pid -1: it could not be started; errno tells why.
Started start(const HostEnvironment& host, const std::vector<std::string>& command) {
  Started started{-1, {}, {}};
  Fd out;
  Fd err;
  if (!open_pipe(started.out, out) || !open_pipe(started.err, err)) return started;
  started.pid = ::fork();
  if (started.pid != 0) return started;
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  const Fd null(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (::dup2(null.get(), 0) < 0 || ::dup2(out.get(), 1) < 0 || ::dup2(err.get(), 2) < 0) ::_exit(run_failed);
  ::_exit(become_on_host(host, command));
}

// False: that was its last.
bool read_some(Stream& stream) {
  std::array<char, 65536> piece{};
  const ssize_t got = ::read(stream.source.get(), piece.data(), piece.size());
  if (got < 0 && errno == EINTR) return true;
  if (got > 0) {
    stream.lines.add({piece.data(), static_cast<size_t>(got)});
    return true;
  }
  stream.lines.finish();
  stream.source.reset();
  return false;
}

void show_output(std::vector<Stream>& streams) {
  while (!streams.empty()) {
    std::vector<pollfd> events;
    for (const Stream& stream : streams) events.push_back({stream.source.get(), POLLIN, 0});
    if (::poll(events.data(), events.size(), -1) < 0) continue;
    for (size_t i = 0; i < events.size(); ++i)
      if (events[i].revents) read_some(streams[i]);
    std::erase_if(streams, [](const Stream& stream) { return !stream.source; });
  }
}

int wait_for_all(const std::vector<pid_t>& pids) {
  int worst = 0;
  for (pid_t pid : pids) worst = std::max(worst, exit_code_of(wait_status_of(pid)));
  return worst;
}

}  // namespace

void LineWriter::add(std::string_view piece) {
  begun_ += piece;
  size_t from = 0;
  for (size_t end; (end = begun_.find('\n', from)) != std::string::npos; from = end + 1)
    write(std::string_view(begun_).substr(from, end - from));
  begun_.erase(0, from);
}

void LineWriter::finish() {
  if (!begun_.empty()) write(begun_);
  begun_.clear();
}

void LineWriter::write(std::string_view line) const {
  const std::string text = fmt::format("{}{}\n", prefix_, line);
  for (std::string_view rest = text; !rest.empty();) {
    const ssize_t done = ::write(fd_, rest.data(), rest.size());
    if (done < 0 && errno != EINTR) return;
    if (done > 0) rest.remove_prefix(static_cast<size_t>(done));
  }
}

int run_on_many(const std::vector<HostEnvironment>& hosts, const std::vector<std::string>& command, Prefix prefix) {
  std::vector<pid_t> pids;
  std::vector<Stream> streams;
  int worst = 0;
  for (const HostEnvironment& host : hosts) {
    Started started = start(host, command);
    if (started.pid < 0) {
      worst = complain(fmt::format("cannot start on {}: {}", host.host, error_text()), run_failed);
      break;
    }
    pids.push_back(started.pid);
    const std::string text = prefix == Prefix::host ? host.host + ": " : "";
    streams.push_back({std::move(started.out), LineWriter(STDOUT_FILENO, text)});
    streams.push_back({std::move(started.err), LineWriter(STDERR_FILENO, text)});
  }
  pass_signals_to(pids);
  show_output(streams);
  return std::max(worst, wait_for_all(pids));
}

}  // namespace softib::cli
