#include "hca/engine/events.h"

#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "hca/engine/timers.h"

namespace softib::hca {

void EventQueue::add(ipc::ObjectKind kind, u32 object, u32 generation, AsyncEvent event) {
  std::lock_guard guard(mutex_);
  pending_.push_back({kind, object, generation, static_cast<u32>(event)});
  pending_count_.fetch_add(1, std::memory_order_relaxed);
}

void EventQueue::raise_all() {
  std::vector<ipc::RaiseEvent::Request> events;
  {
    std::lock_guard guard(mutex_);
    events.swap(pending_);
    pending_count_.store(0, std::memory_order_relaxed);
  }
  // An object that went away meanwhile, or a dead daemon, leaves nobody to tell.
  for (const auto& event : events) (void)client_.call<ipc::RaiseEvent>(0, event);
}

void Violations::note(ipc::KeyViolation kind, ipc::Port& at, const ipc::Qp& from, const ipc::Qp& to, u32 key) {
  auto& counter = kind == ipc::KeyViolation::p_key ? at.pkey_violations : at.qkey_violations;
  counter.fetch_add(1, std::memory_order_relaxed);
  constexpr u64 pause_ns = 100'000'000;
  const u64 now = now_ns();
  if (now < silent_until_.load(std::memory_order_relaxed)) return;
  silent_until_.store(now + pause_ns, std::memory_order_relaxed);
  std::lock_guard guard(mutex_);
  latest_ = {kind, key, from.qpn, to.qpn};
  pending_.store(true, std::memory_order_relaxed);
}

void Violations::report() {
  ipc::ReportViolation::Request request;
  {
    std::lock_guard guard(mutex_);
    request = latest_;
    pending_.store(false, std::memory_order_relaxed);
  }
  (void)client_.call<ipc::ReportViolation>(0, request);  // with softibd gone there is nobody to tell
}

// With mutex_ held.
int Channels::find(u32 channel, u32 generation) {
  auto found = open_.find(channel);
  if (found != open_.end() && found->second.generation == generation) return found->second.fd.get();
  Fd fd;
  if (!client_.call_fd<ipc::ChannelFd>(0, {channel, generation}, -1, &fd) || !fd) return -1;
  int raw = fd.get();
  std::erase_if(open_, [](const auto& entry) {
    // The write end of a pipe without readers.
    pollfd state{entry.second.fd.get(), 0, 0};
    return ::poll(&state, 1, 0) == 1 && (state.revents & POLLERR);
  });
  open_.insert_or_assign(channel, Entry{generation, std::move(fd)});
  return raw;
}

void Channels::notify(u32 channel, u32 channel_generation, const ipc::CompletionRecord& record) {
  constexpr int patience_ms = 1000;  // softibd sizes the pipe for all CQs on the channel; full means a stopped reader
  std::lock_guard guard(mutex_);
  int fd = find(channel, channel_generation);
  if (fd < 0) return;
  for (int tries = 0; tries < 2; ++tries) {
    // The bare system call: this runs below the shim's own write().
    long sent = ::syscall(SYS_write, fd, &record, sizeof record);
    if (sent == sizeof record || errno != EAGAIN) return;
    pollfd wait{fd, POLLOUT, 0};
    ::poll(&wait, 1, patience_ms);
  }
}

}  // namespace softib::hca
