// A meeting of ranks that are threads of one process, or children that it forked: what Bootstrap does, over memory that
// they all share.
#pragma once

#include <memory>
#include <vector>

#include "coll/bootstrap/bootstrap.h"

namespace softib::coll::test {

class LocalMeeting {
 public:
  // Made before the threads or children are. `host_keys`, by rank, tells who is on one host; without, all are.
  explicit LocalMeeting(u32 ranks, std::vector<u64> host_keys = {});
  LocalMeeting(const LocalMeeting&) = delete;
  LocalMeeting& operator=(const LocalMeeting&) = delete;
  ~LocalMeeting();

  // On the rank's own thread or process. Returns when all have joined.
  [[nodiscard]] std::unique_ptr<Bootstrap> join(u32 rank);
  // A rank's thread or process is gone. A Bootstrap that is destroyed without leave() says so itself.
  void mark_ended(u32 rank);

  [[nodiscard]] u32 ranks() const { return ranks_; }

 private:
  friend class LocalBootstrap;
  struct Seat;
  [[nodiscard]] Seat& seat(u32 rank) const;
  void wake_others(u32 rank) const;

  u32 ranks_;
  std::vector<u64> host_keys_;
  std::vector<int> wakers_;  // an eventfd for each rank
  Seat* seats_;
};

}  // namespace softib::coll::test
