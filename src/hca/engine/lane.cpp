#include "hca/engine/lane.h"

#include <sched.h>

namespace softib::hca {

namespace {

constexpr u32 kept_lanes = ipc::lanes_per_process - 4;  // the last few are only lent
constexpr u32 borrowed = 2;                             // value of Lane::taken for a lent lane

std::atomic<u64> next_epoch{1};

struct ThreadLane {
  ipc::Lane* lane = nullptr;
  u64 epoch = 0;
  ~ThreadLane() {
    if (lane && epoch == next_epoch.load(std::memory_order_relaxed) - 1)
      lane->taken.store(0, std::memory_order_release);
  }
};

thread_local ThreadLane thread_lane;

ipc::Lane* try_claim(ipc::Process& process, u32 first, u32 end, u32 value) {
  for (u32 i = first; i < end; ++i) {
    u32 expected = 0;
    ipc::Lane& lane = process.lanes[i];
    if (lane.taken.load(std::memory_order_relaxed) == 0 &&
        lane.taken.compare_exchange_strong(expected, value, std::memory_order_acquire))
      return &lane;
  }
  return nullptr;
}

}  // namespace

Lanes::Lanes(ipc::Process& process) : process_(process), epoch_(next_epoch.fetch_add(1)) {}

ipc::Lane& Lanes::claim() {
  if (ipc::Lane* lane = try_claim(process_, 0, kept_lanes, 1)) {
    thread_lane.lane = lane;
    thread_lane.epoch = epoch_;
    return *lane;
  }
  for (;;) {
    if (ipc::Lane* lane = try_claim(process_, kept_lanes, ipc::lanes_per_process, borrowed)) return *lane;
    ::sched_yield();
  }
}

ipc::Lane& Lanes::enter() {
  ThreadLane& mine = thread_lane;
  ipc::Lane& lane = mine.epoch == epoch_ && mine.lane ? *mine.lane : claim();
  lane.sequence.store(lane.sequence.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  return lane;
}

void Lanes::leave(ipc::Lane& lane) {
  lane.sequence.store(lane.sequence.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  if (lane.taken.load(std::memory_order_relaxed) == borrowed) lane.taken.store(0, std::memory_order_release);
}

}  // namespace softib::hca
