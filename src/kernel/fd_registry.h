// The descriptors that commands hand out. The shim keeps the list, since it must know their kind in read() and close().
#pragma once

#include "base/fd.h"
#include "base/types.h"

namespace softib::kernel {

class FdRegistry {
 public:
  struct Channel {
    u32 channel;
    u32 generation;
  };

  virtual ~FdRegistry() = default;

  // Take a descriptor that softibd made and give the number that the program gets. The number is the program's to
  // close; the shim may move it (to the lowest free number, say). EMFILE and the like when that fails: the descriptor
  // is closed then.
  virtual Result<int> adopt_async_fd(Fd fd, u32 context) = 0;
  virtual Result<int> adopt_channel_fd(Fd fd, u32 context, Channel channel) = 0;

  // The completion channel behind a descriptor of the program. EBADF: it is none, or one of another context.
  virtual Result<Channel> channel_of_fd(int fd, u32 context) = 0;

  // Takes back a descriptor that was handed out by a command that failed afterwards: closes and forgets it.
  virtual void drop_fd(int fd) = 0;
};

}  // namespace softib::kernel
