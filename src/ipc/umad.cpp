#include "ipc/umad.h"

#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "ipc/passed_fds.h"

namespace softib::ipc {

namespace {

Fd in_memory(std::span<const u8> mad) {
  Fd file(::memfd_create("softib-mad", MFD_CLOEXEC));
  for (size_t done = 0; file && done < mad.size();) {
    ssize_t written = ::write(file.get(), mad.data() + done, mad.size() - done);
    if (written <= 0) return {};
    done += static_cast<size_t>(written);
  }
  return file;
}

}  // namespace

Result<void> send_frame(int socket, const UmadFrame& frame, std::span<const u8> mad, int flags) {
  const bool goes_beside = mad.size() > inline_mad;
  iovec parts[2] = {{const_cast<UmadFrame*>(&frame), sizeof frame}, {const_cast<u8*>(mad.data()), mad.size()}};
  msghdr message{};
  message.msg_iov = parts;
  message.msg_iovlen = goes_beside ? 1 : 2;
  FdRoom<1> control{};
  Fd beside;
  if (goes_beside) {
    beside = in_memory(mad);
    if (!beside) return fail(ENOMEM);
    attach_fd(message, control, beside.get());
  }
  if (::sendmsg(socket, &message, flags | MSG_NOSIGNAL) < 0) return fail(errno);
  return {};
}

ReceivedFrame receive_frame(int socket, UmadFrame& frame, std::span<u8> room, int flags) {
  iovec parts[2] = {{&frame, sizeof frame}, {room.data(), room.size()}};
  msghdr message{};
  message.msg_iov = parts;
  message.msg_iovlen = 2;
  FdRoom<2> control;
  control.lend_to(message);
  ReceivedFrame received{::recvmsg(socket, &message, flags | MSG_CMSG_CLOEXEC), {}};
  if (received.size > 0) for_each_passed_fd(message, [&received](int fd) { received.beside = Fd(fd); });
  return received;
}

}  // namespace softib::ipc
