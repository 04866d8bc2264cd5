// Being told that a descriptor's other side has gone.
#pragma once

#include "base/types.h"

namespace softib::daemon {

class Watcher {
 public:
  virtual ~Watcher() = default;
  virtual void watch_context(u32 context, int fd) = 0;  // the last copy of the command fd is closed
  virtual void watch_channel(u32 channel, int fd) = 0;  // the last reader of the pipe is gone
  virtual void watch_umad(u32 file, int fd) = 0;        // a MAD was written, or the last copy is closed
  virtual void forget(int fd) = 0;
};

}  // namespace softib::daemon
