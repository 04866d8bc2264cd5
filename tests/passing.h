// Passing a descriptor and a number through a Unix socket.
#pragma once

#include <gtest/gtest.h>

#include "ipc/passed_fds.h"

namespace softib::test {

inline void send_descriptor(int socket, int fd, u32 note = 0) {
  ipc::FdRoom<1> room{};
  iovec piece{&note, sizeof note};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  ipc::attach_fd(message, room, fd);
  ASSERT_EQ(::sendmsg(socket, &message, 0), static_cast<ssize_t>(sizeof note));
}

// -1: none came.
inline int receive_descriptor(int socket, u32* note = nullptr) {
  ipc::FdRoom<1> room{};
  u32 came = 0;
  iovec piece{&came, sizeof came};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  room.lend_to(message);
  int received = -1;
  if (::recvmsg(socket, &message, 0) != static_cast<ssize_t>(sizeof came)) return received;
  ipc::for_each_passed_fd(message, [&received](int fd) { received = fd; });
  if (note) *note = came;
  return received;
}

}  // namespace softib::test
