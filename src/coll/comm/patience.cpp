#include "coll/comm/patience.h"

#include <poll.h>
#include <sched.h>

#include <algorithm>
#include <thread>
#include <vector>

namespace softib::coll {

namespace {

void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace

bool Patience::rest() {
  ++idle_;
  if (idle_ > (crowded_ ? spins_crowded : spins_alone))
    ::sched_yield();
  else
    relax();
  return idle_ % looks_apart == 0;
}

void Patience::sleep(std::span<const int> descriptors, bool all_tell, std::chrono::nanoseconds still) {
  using std::chrono::microseconds;
  const auto longest = all_tell ? microseconds(20'000) : microseconds(1000);
  const auto time =
      std::clamp<microseconds>(std::chrono::duration_cast<microseconds>(still) / 64, microseconds(50), longest);
  if (descriptors.empty()) {
    std::this_thread::sleep_for(time);
    return;
  }
  std::vector<pollfd> polled;
  for (const int descriptor : descriptors) polled.push_back({descriptor, POLLIN, 0});
  const timespec limit{0, std::chrono::nanoseconds(time).count()};
  ::ppoll(polled.data(), polled.size(), &limit, nullptr);
}

}  // namespace softib::coll
