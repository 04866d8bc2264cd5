// An open counters/NAME of a port. The tree's file is a placeholder; what the program gets is a memory file with what
// the counter stands at, which is asked for anew whenever the program reads from the start, as sysfs does.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <optional>

#include "base/fd.h"
#include "ipc/protocol.h"
#include "shim/fd_table.h"
#include "shim/ours.h"

namespace softib::shim {

class CounterFile final : public File {
 public:
  CounterFile(const ipc::ReadCounter::Request& what, dev_t device, ino_t inode)
      : what_(what), device_(device), inode_(inode) {}

  // To be called before a read from the start of `fd`.
  void refresh(int fd);

 private:
  [[nodiscard]] bool stands_behind(int fd) const;

  ipc::ReadCounter::Request what_;
  dev_t device_;  // of the memory file
  ino_t inode_;
  std::atomic<bool> fresh_{true};  // nothing has been read since open() asked
};

// The counter that a path of the tree names, whatever way it takes there.
std::optional<ipc::ReadCounter::Request> counter_at(const Redirect& path);

// open() of it. EOPNOTSUPP: nothing counts there, the tree's file tells all.
Result<int> open_counter(const ipc::ReadCounter::Request& what, int flags);

// The same for a stdio stream, whose reads do not come by here: what it stands at now.
Result<Fd> counter_now(const ipc::ReadCounter::Request& what);

// A read of a descriptor that the table says is a counter's, from `offset` (-1: where it is).
void before_counter_read(int fd, off_t offset);

}  // namespace softib::shim
