// Entering and leaving the data path: the lane that a thread holds (ipc/segment.h, Lifetime).
#pragma once

#include "ipc/segment.h"

namespace softib::hca {

// Lanes of one process. Threads keep the lane that they got until they end; when all are taken, a thread borrows one
// for a single stay.
class Lanes {
 public:
  explicit Lanes(ipc::Process& process);

  // The calling thread's lane, its sequence made odd. The caller's next locked instruction (taking a lock, becoming a
  // QP's driver) orders it before the keys and states that it reads.
  ipc::Lane& enter();
  static void leave(ipc::Lane& lane);

 private:
  ipc::Lane& claim();

  ipc::Process& process_;
  u64 epoch_;  // tells the lanes of this session from those of a parent process
};

class LaneGuard {
 public:
  explicit LaneGuard(Lanes& lanes) : lane_(lanes.enter()) {}
  ~LaneGuard() { Lanes::leave(lane_); }
  LaneGuard(const LaneGuard&) = delete;
  LaneGuard& operator=(const LaneGuard&) = delete;

 private:
  ipc::Lane& lane_;
};

}  // namespace softib::hca
