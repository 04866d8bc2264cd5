// Descriptors that go with a message through a Unix socket (SCM_RIGHTS).
#pragma once

#include <sys/socket.h>

#include <cstring>

#include "base/types.h"

namespace softib::ipc {

// Room for the control part of a message with that many descriptors.
template <size_t count>
struct FdRoom {
  alignas(cmsghdr) char bytes[CMSG_SPACE(sizeof(int) * count)];

  void lend_to(msghdr& message) {
    message.msg_control = bytes;
    message.msg_controllen = sizeof bytes;
  }
};

template <size_t count>
void attach_fd(msghdr& message, FdRoom<count>& room, int fd) {
  room.lend_to(message);
  message.msg_controllen = CMSG_SPACE(sizeof fd);
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  *header = {CMSG_LEN(sizeof fd), SOL_SOCKET, SCM_RIGHTS};
  std::memcpy(CMSG_DATA(header), &fd, sizeof fd);
}

// Visits every descriptor of a message that was received.
template <typename Visit>
void for_each_passed_fd(const msghdr& message, Visit visit) {
  auto* mutable_message = const_cast<msghdr*>(&message);  // CMSG_NXTHDR wants it so, and changes nothing
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header; header = CMSG_NXTHDR(mutable_message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int fd;
      std::memcpy(&fd, CMSG_DATA(header) + i * sizeof fd, sizeof fd);
      visit(fd);
    }
  }
}

}  // namespace softib::ipc
