// fork(): a memory file stays shared with the child, which must have its own copy instead.
#pragma once

#include <atomic>
#include <mutex>

#include "hca/memory/memory_file.h"

namespace softib::hca {

// One fork at a time. The parent waits until the child has copied, or has died.
//
// No lock that share() takes is held meanwhile: handlers of the program run in between (pthread_atfork), and its
// allocator's may wait for a thread that is inside on_madvise.
class ForkRound {
 public:
  void begin(bool with_copy);
  void end_in_parent();
  void end_in_child(MemoryFile& file);

 private:
  void open_line();
  void wait_for_child() const;
  void tell_parent();
  void close_line();
  void block_signals();
  void restore_signals();

  std::mutex one_at_a_time_;
  std::atomic<u64> owner_{0};  // the thread that forks, by its control block, which is the same in the child
  bool with_copy_ = false;
  int pipe_[2] = {-1, -1};              // the child holds the writing end until it has copied
  std::atomic<u32>* copied_ = nullptr;  // a shared page instead, where there are no descriptors left for a pipe
  u64 signals_ = 0;
};

}  // namespace softib::hca
