#include "ipc/client.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>

#include "ipc/passed_fds.h"

namespace softib::ipc {

namespace {

// Programs that close "all" descriptors from 3 up, or expect the lowest free number, must not meet ours.
constexpr int first_private_fd = 700;

Fd out_of_the_way(int fd) {
  int moved = ::fcntl(fd, F_DUPFD_CLOEXEC, first_private_fd);
  if (moved < 0) return Fd(fd);  // a low RLIMIT_NOFILE: keep it where it is
  ::close(fd);
  return Fd(moved);
}

void take_fd(const msghdr& message, Fd* received) {
  for_each_passed_fd(message, [received](int fd) {
    Fd owned(fd);
    if (received) *received = std::move(owned);
  });
}

ssize_t retry_send(int fd, const msghdr& message) {
  ssize_t sent;
  do sent = ::sendmsg(fd, &message, MSG_NOSIGNAL);
  while (sent < 0 && errno == EINTR);
  return sent;
}

ssize_t retry_receive(int fd, msghdr& message) {
  ssize_t got;
  do got = ::recvmsg(fd, &message, MSG_CMSG_CLOEXEC);
  while (got < 0 && errno == EINTR);
  return got;
}

}  // namespace

Result<std::unique_ptr<Client>> Client::connect(const std::string& fabric_dir) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::string path = fabric_dir + "/daemon.sock";
  if (path.size() >= sizeof address.sun_path) return fail(ENAMETOOLONG);
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  int fd = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  if (fd < 0) return fail(errno);
  Fd socket = out_of_the_way(fd);
  if (::connect(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) < 0) return fail(errno);
  return std::unique_ptr<Client>(new Client(std::move(socket)));
}

Result<void> Client::exchange(Op op, u32 context, const void* request, u32 request_size, void* reply, u32 reply_size,
                              int send_fd, Fd* received) {
  RequestHeader request_header{op, context};
  iovec out[2] = {{&request_header, sizeof request_header}, {const_cast<void*>(request), request_size}};
  msghdr sending{};
  sending.msg_iov = out;
  sending.msg_iovlen = request_size ? 2 : 1;
  FdRoom<max_fds> sent_control{};
  if (send_fd >= 0) attach_fd(sending, sent_control, send_fd);

  ReplyHeader reply_header{};
  iovec in[2] = {{&reply_header, sizeof reply_header}, {reply, reply_size}};
  msghdr receiving{};
  receiving.msg_iov = in;
  receiving.msg_iovlen = reply_size ? 2 : 1;
  FdRoom<max_fds> got_control{};
  got_control.lend_to(receiving);

  std::lock_guard guard(mutex_);
  if (!socket_) return fail(EIO);
  if (retry_send(socket_.get(), sending) < 0) return fail(EIO);
  ssize_t got = retry_receive(socket_.get(), receiving);
  if (got < static_cast<ssize_t>(sizeof reply_header)) return fail(EIO);
  Fd descriptor;
  take_fd(receiving, &descriptor);
  if (reply_header.error) return fail(reply_header.error);
  if (got != static_cast<ssize_t>(sizeof reply_header + reply_size)) return fail(EIO);
  if (received) *received = std::move(descriptor);
  return {};
}

Result<void> attach_as_tool(Client& client, std::string_view program) {
  Attach::Request request{};
  request.version = interface_version;
  request.size_of_qp = sizeof(Qp);
  request.is_tool = 1;
  request.local_pid = ::getpid();
  program.copy(request.program, sizeof request.program - 1);
  auto reply = client.call<Attach>(0, request);
  if (!reply) return fail(reply.error());
  return {};
}

}  // namespace softib::ipc
