#include "aggregation/watch.h"

#include <algorithm>
#include <array>

namespace softib::aggregation {

void Watch::listen(int descriptor, Watched* one) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.ptr = one;
  static_cast<void>(::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, descriptor, &event));
}

void Watch::add(Watched& one, std::chrono::nanoseconds linger) {
  listen(one.descriptor(), &one);
  Entry& entry = entries_[&one];
  entry.one = &one;
  entry.linger = linger;
  wake(entry);
}

// Another process may have the same file open, so that closing it here isn't enough.
void Watch::remove(Watched& one) {
  const auto entry = entries_.find(&one);
  if (entry == entries_.end()) return;
  static_cast<void>(::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, one.descriptor(), nullptr));
  std::replace(awake_.begin(), awake_.end(), &entry->second, static_cast<Entry*>(nullptr));
  entries_.erase(entry);
}

void Watch::wake(const Watched& one) {
  if (const auto entry = entries_.find(&one); entry != entries_.end()) wake(entry->second);
}

void Watch::wake(Entry& entry) {
  if (entry.awake) return;
  entry.awake = true;
  entry.moved = {};
  awake_.push_back(&entry);
}

bool Watch::turn(Time now) {
  bool any = false;
  // Turns may wake others, which are behind.
  for (std::size_t i = 0; i < awake_.size(); ++i)
    if (awake_[i] != nullptr) any |= turn_of(i, now);
  std::erase_if(awake_, [](Entry*& entry) { return entry == nullptr; });
  return any;
}

bool Watch::turn_of(std::size_t index, Time now) {
  const bool moved = awake_[index]->one->turn(now);
  Entry* entry = awake_[index];
  if (entry == nullptr) return true;  // that was its last one
  if (moved || entry->moved == Time{}) entry->moved = now;
  const bool lingers = lingers_ && now - entry->moved < entry->linger;
  if (moved || lingers || !entry->one->arm()) return moved;
  // What came before the arming makes no event.
  const bool late = entry->one->turn(now);
  if (awake_[index] == nullptr) return true;
  if (late) {
    entry->moved = now;
    return true;
  }
  entry->awake = false;
  awake_[index] = nullptr;
  return false;
}

void Watch::wait(std::chrono::milliseconds patience) {
  std::array<epoll_event, 16> events{};
  const int count =
      ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), static_cast<int>(patience.count()));
  for (int i = 0; i < count; ++i)
    if (auto* one = static_cast<Watched*>(events[static_cast<std::size_t>(i)].data.ptr)) wake(*one);
}

}  // namespace softib::aggregation
