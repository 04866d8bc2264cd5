// The process's helper thread: retries whose time has come, requests of peers for this process's memory, and the
// receive queues of QPs in ERR (posting to them rings no doorbell). Asleep in a futex while there is none of that.
#pragma once

#include <pthread.h>

#include <mutex>
#include <set>
#include <unordered_map>

#include "hca/engine/context.h"
#include "hca/engine/lane.h"
#include "hca/engine/send_queue.h"
#include "hca/memory.h"

namespace softib::hca {

// forget() followed by a wait for quiescence leaves no helper at work on a QP: before it touches one, it enters the
// data path and then looks whether the QP is still its concern.
class Helper final : public WaitList, public OwnThread {
 public:
  Helper(Context& context, Lanes& lanes) : context_(context), lanes_(lanes), queue_(context, *this) {}

  // Starts the thread unless it runs. All signals are blocked in it. A failure (EAGAIN) leaves retries to later
  // doorbells and is tried again at the next call.
  void start();

  void add(ipc::Qp& qp) override;  // WaitList
  bool park() override;            // OwnThread
  void resume() override { working_.unlock(); }
  void watch_receives(u32 qpn);
  void forget(u32 qpn);
  void wake();

  [[nodiscard]] SendQueue& queue() { return queue_; }

 private:
  static void* thread_main(void* self);
  [[noreturn]] void loop();
  u64 work();
  u64 serve_waits();
  u64 serve_watched();
  void find_failed();
  void sleep_until(u64 deadline, u32 seen_kick);
  bool still_waits(u32 qpn);
  bool still_watched(u32 qpn);

  struct Watch {
    u64 due;
    u64 interval;
  };

  Context& context_;
  Lanes& lanes_;
  SendQueue queue_;
  std::timed_mutex working_;  // held by the thread while it is not asleep
  std::mutex mutex_;
  bool running_ = false;
  u32 seen_errors_ = 0;
  std::set<u32> waiting_;                   // QPNs
  std::unordered_map<u32, Watch> watched_;  // QPNs in ERR
};

}  // namespace softib::hca
