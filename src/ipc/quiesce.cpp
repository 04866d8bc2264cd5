#include "ipc/quiesce.h"

#include <algorithm>

namespace softib::ipc {

namespace {

bool alive(const Process& process, u32 generation) {
  return process.state.load(std::memory_order_acquire) == ProcessState::live &&
         process.generation.load(std::memory_order_relaxed) == generation;
}

}  // namespace

LaneSnapshot LaneSnapshot::take(const Segment& segment) {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  LaneSnapshot snapshot;
  u32 limit = std::min(segment.header.process_limit.load(std::memory_order_acquire), max_processes);
  for (u32 slot = 1; slot < limit; ++slot) {
    const Process& process = segment.processes[slot];
    u32 generation = process.generation.load(std::memory_order_relaxed);
    if (process.state.load(std::memory_order_acquire) != ProcessState::live) continue;
    for (u32 lane = 0; lane < lanes_per_process; ++lane) {
      u64 sequence = process.lanes[lane].sequence.load(std::memory_order_acquire);
      if (sequence & 1) snapshot.inside_.push_back({slot, generation, lane, sequence});
    }
  }
  return snapshot;
}

bool LaneSnapshot::passed(const Segment& segment) {
  std::erase_if(inside_, [&](const Entry& entry) {
    const Process& process = segment.processes[entry.slot];
    return !alive(process, entry.generation) ||
           process.lanes[entry.lane].sequence.load(std::memory_order_acquire) != entry.sequence;
  });
  return inside_.empty();
}

}  // namespace softib::ipc
