// What the event loop does for the rest: tells that a descriptor's other side has gone, and ends processes.
#pragma once

#include "base/types.h"

namespace softib::daemon {

class Watcher {
 public:
  virtual ~Watcher() = default;
  virtual void watch_context(u32 context, int fd) = 0;  // the last copy of the command fd is closed
  virtual void watch_channel(u32 channel, int fd) = 0;  // the last reader of the pipe is gone
  virtual void watch_umad(u32 file, int fd) = 0;        // a MAD was written, or the last copy is closed
  virtual void watch_rdma_cm(u32 file, int fd) = 0;     // the last reader of the pipe is gone
  virtual void forget(int fd) = 0;
  // SIGKILL to the process behind a connection. False: it is another user's, or can't be seen from here.
  virtual bool kill(u32 peer) = 0;
  // The stock subnet managers of the fabric file die, or start anew. False: there was nothing to do.
  virtual bool run_stock_managers(bool run) = 0;
  // So do the programs of its aggregation nodes.
  virtual bool run_aggregation(bool run) = 0;
};

}  // namespace softib::daemon
