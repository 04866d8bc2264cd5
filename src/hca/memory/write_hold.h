// Holding off writers to a range while its pages are moved: userfaultfd in write-protect mode. A thread that writes
// sleeps in its page fault, and does the write again once it is let go; reading goes on.
#pragma once

#include "hca/memory.h"

namespace softib::hca {

class WriteHold {
 public:
  // What the system lets us hold.
  enum class Reach : u8 {
    nobody,   // no userfaultfd: seccomp, or a kernel before 5.7
    threads,  // the program's own instructions; a system call that writes into the range would fail with EFAULT
    kernel    // system calls too
  };

  WriteHold() = default;
  ~WriteHold() { close(); }
  WriteHold(const WriteHold&) = delete;
  WriteHold& operator=(const WriteHold&) = delete;

  // Finds out what can be held. The descriptor is kept: closing one makes the kernel look at all mappings there are.
  Reach open();
  // In the child of a fork, where it stands for the parent's memory; and when it turns out not to be ours any more.
  void close();

  // Takes the range, which is plain private memory. EBUSY: the program has it under a userfaultfd of its own.
  Result<void> claim(AddressRange range);
  // From here on until let_go_*(), claimed pages keep what they hold. Pages never touched are given the page of zeros.
  Result<void> protect(AddressRange range);

  // After other memory was mapped over the range, or after a failure: writers go on.
  void let_go_replaced(AddressRange range);
  void let_go_unchanged(AddressRange range);

 private:
  Reach open_anew();
  bool start(int fd);

  int fd_ = -1;
  Reach reach_ = Reach::nobody;
};

}  // namespace softib::hca
