#include "hca/engine/helper.h"

#include <linux/futex.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <vector>

#include "hca/engine/agent.h"
#include "hca/engine/qp_error.h"
#include "hca/engine/timers.h"

namespace softib::hca {

namespace {

using ipc::QpState;
using ipc::Wait;

constexpr u64 shortest_watch_ns = 200'000;
constexpr u64 longest_watch_ns = 100'000'000;
constexpr unsigned long timer_slack_ns = 1'000;  // messages on paced links are due at such times
constexpr u64 try_again_ns = 50'000;             // another thread was driving when a wait ended

}  // namespace

void Helper::start() {
  std::lock_guard guard(mutex_);
  if (running_) return;
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_t thread;
  if (pthread_create(&thread, nullptr, thread_main, this) == 0) {
    pthread_setname_np(thread, "softib");
    pthread_detach(thread);
    running_ = true;
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void* Helper::thread_main(void* self) { static_cast<Helper*>(self)->loop(); }

void Helper::wake() { kick(context_.process(context_.slot)); }

void Helper::add(ipc::Qp& qp) {
  start();
  {
    std::lock_guard guard(mutex_);
    waiting_.insert(qp.qpn);
  }
  wake();
}

void Helper::watch_receives(u32 qpn) {
  std::lock_guard guard(mutex_);
  watched_.insert_or_assign(qpn, Watch{now_ns() + shortest_watch_ns, shortest_watch_ns});
}

void Helper::forget(u32 qpn) {
  std::lock_guard guard(mutex_);
  waiting_.erase(qpn);
  watched_.erase(qpn);
}

bool Helper::park() {
  if (!working_.try_lock_for(std::chrono::milliseconds(10))) return false;
  std::lock_guard guard(mutex_);
  if (running_) return true;
  working_.unlock();
  return false;
}

void Helper::loop() {
  ::prctl(PR_SET_TIMERSLACK, timer_slack_ns, 0, 0, 0);
  ipc::Process& self = context_.process(context_.slot);
  for (;;) {
    u32 seen = self.kick.load(std::memory_order_acquire);
    sleep_until(work(), seen);
  }
}

// Gives when there is more to do.
u64 Helper::work() {
  std::lock_guard at_work(working_);
  answer_agent(context_.segment, context_.slot);
  find_failed();
  u64 next = std::min(serve_waits(), serve_watched());
  if (!context_.events.empty()) context_.events.raise_all();
  if (!context_.violations.empty()) context_.violations.report();
  context_.memory.forget_the_dead();
  return next;
}

void Helper::sleep_until(u64 deadline, u32 seen_kick) {
  timespec timeout{};
  if (deadline != never) {
    u64 now = now_ns();
    if (deadline <= now) return;
    timeout = {static_cast<time_t>((deadline - now) / 1'000'000'000),
               static_cast<long>((deadline - now) % 1'000'000'000)};
  }
  auto& word = context_.process(context_.slot).kick;
  ::syscall(SYS_futex, reinterpret_cast<u32*>(&word), FUTEX_WAIT, seen_kick, deadline == never ? nullptr : &timeout,
            nullptr, 0);
}

// QPs of this process that somebody took to ERR: what they still hold is flushed, their receive queues are watched.
void Helper::find_failed() {
  u32 errors = context_.process(context_.slot).qp_errors.load(std::memory_order_acquire);
  if (errors == seen_errors_) return;
  seen_errors_ = errors;
  u32 limit = std::min(context_.segment.header.qp_limit.load(std::memory_order_acquire), ipc::max_qps);
  for (u32 qpn = 1; qpn < limit; ++qpn) {
    ipc::Qp* qp = context_.qp(qpn);
    if (!qp || qp->owner != context_.slot || qp->state.load(std::memory_order_acquire) != QpState::err) continue;
    LaneGuard lane(lanes_);
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (qp->owner != context_.slot || qp->state.load(std::memory_order_acquire) != QpState::err) continue;
    queue_.resume(*qp);
    flush_receives(context_, *qp);
    if (!qp->srq) watch_receives(qpn);
  }
}

bool Helper::still_waits(u32 qpn) {
  std::lock_guard guard(mutex_);
  return waiting_.contains(qpn);
}

bool Helper::still_watched(u32 qpn) {
  std::lock_guard guard(mutex_);
  return watched_.contains(qpn);
}

u64 Helper::serve_waits() {
  std::vector<u32> waiting;
  {
    std::lock_guard guard(mutex_);
    waiting.assign(waiting_.begin(), waiting_.end());
  }
  u64 next = never;
  for (u32 qpn : waiting) {
    ipc::Qp* qp = context_.qp(qpn);
    if (!qp || qp->requester.wait.load(std::memory_order_acquire) == Wait::none) {
      // A driver sets the wait before it calls add(): looked at again under the lock, none is forgotten.
      std::lock_guard guard(mutex_);
      if (!qp || qp->requester.wait.load(std::memory_order_acquire) == Wait::none) waiting_.erase(qpn);
      continue;
    }
    bool failed = qp->state.load(std::memory_order_acquire) == QpState::err;
    u64 now = now_ns();
    if (failed || qp->requester.deadline <= now) {
      LaneGuard lane(lanes_);
      if (still_waits(qpn)) queue_.resume(*qp);
    }
    // Maybe a new wait by now; or the resume met another driver and is to be repeated.
    if (qp->requester.wait.load(std::memory_order_acquire) != Wait::none)
      next = std::min(next, qp->requester.deadline > now ? qp->requester.deadline : now + try_again_ns);
  }
  return next;
}

u64 Helper::serve_watched() {
  std::vector<std::pair<u32, Watch>> due;
  u64 now = now_ns();
  u64 next = never;
  {
    std::lock_guard guard(mutex_);
    for (auto& [qpn, watch] : watched_)
      if (watch.due <= now)
        due.emplace_back(qpn, watch);
      else
        next = std::min(next, watch.due);
  }
  for (auto& [qpn, watch] : due) {
    ipc::Qp* qp = context_.qp(qpn);
    if (!qp || qp->owner != context_.slot || qp->state.load(std::memory_order_acquire) != QpState::err) {
      forget(qpn);
      continue;
    }
    LaneGuard lane(lanes_);
    bool busy = still_watched(qpn) && flush_receives(context_, *qp) > 0;
    watch.interval = busy ? shortest_watch_ns : std::min(watch.interval * 2, longest_watch_ns);
    watch.due = now + watch.interval;
    next = std::min(next, watch.due);
    std::lock_guard guard(mutex_);
    if (auto found = watched_.find(qpn); found != watched_.end()) found->second = watch;
  }
  return next;
}

}  // namespace softib::hca
