#include "ipoib/loop.h"

#include <sys/epoll.h>

#include <algorithm>
#include <system_error>

namespace softib::ipoib {

Loop::Loop() : epoll_(::epoll_create1(EPOLL_CLOEXEC)) {
  if (!epoll_) throw std::system_error(errno, std::generic_category(), "epoll");
}

void Loop::watch(int fd, Handler handler) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = fd;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0)
    throw std::system_error(errno, std::generic_category(), "epoll_ctl");
  handlers_[fd] = std::move(handler);
}

void Loop::unwatch(int fd) {
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
  handlers_.erase(fd);
}

void Loop::pause(int fd, bool paused) {
  epoll_event event{};
  event.events = paused ? 0U : static_cast<u32>(EPOLLIN);
  event.data.fd = fd;
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, fd, &event);
}

void Loop::after(milliseconds delay, Handler handler) { timers_.emplace(Clock::now() + delay, std::move(handler)); }

int Loop::time_left() const {
  if (timers_.empty()) return -1;
  const auto left = std::chrono::ceil<milliseconds>(timers_.begin()->first - Clock::now()).count();
  return static_cast<int>(std::clamp<i64>(left, 0, 60'000));
}

void Loop::fire() {
  const Time now = Clock::now();
  while (!timers_.empty() && timers_.begin()->first <= now) {
    const Handler handler = std::move(timers_.begin()->second);
    timers_.erase(timers_.begin());
    handler();
  }
}

void Loop::wait(int patience_ms) {
  epoll_event events[16];
  const int count = ::epoll_wait(epoll_.get(), events, 16, patience_ms);
  for (int i = 0; i < count; ++i) {
    const auto at = handlers_.find(events[i].data.fd);
    if (at == handlers_.end()) continue;
    const Handler handler = at->second;  // it may unwatch itself
    handler();
  }
}

// Endless traffic must not keep timers and signals waiting.
bool Loop::move_until_quiet() {
  constexpr u32 most_passes = 16;
  for (u32 pass = 0; pass < most_passes; ++pass) {
    bool any = false;
    for (const Worker& worker : workers_) any |= worker.move();
    if (any) continue;
    for (const Worker& worker : workers_) any |= worker.arm();
    if (!any) return true;
  }
  return false;
}

void Loop::run() {
  while (!stopped_) {
    wait(move_until_quiet() ? time_left() : 0);
    fire();
  }
  stopped_ = false;
}

}  // namespace softib::ipoib
