#include "end.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <stdexcept>

namespace conformance {
namespace {

bool read_exactly(int fd, void* to, size_t length) {
  auto* at = static_cast<u8*>(to);
  while (length != 0) {
    const ssize_t got = read(fd, at, length);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    at += got;
    length -= static_cast<size_t>(got);
  }
  return true;
}

bool write_exactly(int fd, const void* from, size_t length) {
  const auto* at = static_cast<const u8*>(from);
  while (length != 0) {
    const ssize_t put = write(fd, at, length);
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return false;
    at += put;
    length -= static_cast<size_t>(put);
  }
  return true;
}

bool send_frame(int fd, const std::vector<u8>& bytes) {
  const u32 length = static_cast<u32>(bytes.size());
  return write_exactly(fd, &length, sizeof length) && write_exactly(fd, bytes.data(), bytes.size());
}

bool receive_frame(int fd, std::vector<u8>* bytes) {
  u32 length = 0;
  if (!read_exactly(fd, &length, sizeof length)) return false;
  bytes->resize(length);
  return read_exactly(fd, bytes->data(), length);
}

}  // namespace

AgentProcess::AgentProcess(const std::string& command) {
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) throw std::runtime_error("socketpair failed");
  pid_ = fork();
  if (pid_ == 0) {
    dup2(pair[1], 0);
    dup2(pair[1], 1);
    execl("/bin/sh", "sh", "-c", command.c_str(), static_cast<char*>(nullptr));
    _exit(127);
  }
  close(pair[1]);
  fd_ = pair[0];
}

AgentProcess::~AgentProcess() {
  close(fd_);
  waitpid(pid_, nullptr, 0);
}

std::vector<u8> AgentProcess::exchange(const std::vector<u8>& request) {
  std::vector<u8> reply;
  signal(SIGPIPE, SIG_IGN);
  if (!send_frame(fd_, request) || !receive_frame(fd_, &reply)) throw std::runtime_error("the agent process is gone");
  return reply;
}

void AgentProcess::kill(i32 device_process) { ::kill(device_process, SIGKILL); }

std::unique_ptr<End> End::local(const std::string& device, int port, int gid_index) {
  std::unique_ptr<End> end(new End);
  end->device_ = std::make_unique<Device>(device, port, gid_index);
  return end;
}

std::unique_ptr<End> End::remote(const std::string& command) {
  std::unique_ptr<End> end(new End);
  end->agent_ = std::make_unique<AgentProcess>(command);
  end->info();  // fails here, not in the middle of a test, when the command is no agent
  return end;
}

namespace {

using Handler = std::vector<u8> (*)(Device&, Reader&);

template <auto M>
struct Serve;

template <typename R, typename... A, R (Device::*M)(A...)>
struct Serve<M> {
  static std::vector<u8> handle(Device& device, Reader& reader) {
    // Braces: arguments are read from left to right.
    std::tuple<A...> arguments{reader.get<A>()...};
    Writer writer;
    writer.put(std::apply([&](A&... argument) { return (device.*M)(std::move(argument)...); }, arguments));
    return writer.bytes();
  }
};

constexpr std::array<Handler, static_cast<size_t>(Method::count)> handlers = {
#define X(name) &Serve<&Device::name>::handle,
    CONFORMANCE_METHODS(X)
#undef X
};

}  // namespace

int run_agent(const std::string& device_name, int port, int gid_index) {
  const int requests = dup(0);
  const int replies = dup(1);
  fcntl(requests, F_SETFD, FD_CLOEXEC);
  fcntl(replies, F_SETFD, FD_CLOEXEC);
  dup2(2, 1);  // what a library prints must not get into the replies
  const int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
  dup2(nothing, 0);
  close(nothing);
  Device device(device_name, port, gid_index);
  std::vector<u8> frame;
  while (receive_frame(requests, &frame)) {
    Reader reader(frame);
    const auto method = reader.get<u32>();
    if (method >= handlers.size()) return 1;
    if (!send_frame(replies, handlers[method](device, reader))) return 1;
  }
  return 0;
}

}  // namespace conformance
