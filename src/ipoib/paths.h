// The ways to other ports: what PathRecord queries have told, and packets that wait for them.
#pragma once

#include "ipoib/frame.h"
#include "ipoib/sa_records.h"

namespace softib::ipoib {

class Paths {
 public:
  Paths(Loop& loop, const Port& port, SaClient& client, u16 pkey, Deliver deliver)
      : loop_(loop), port_(port), client_(client), graveyard_(loop), pkey_(pkey), deliver_(std::move(deliver)) {}

  // nullptr: asked for; hold() a frame.
  [[nodiscard]] ibv_ah* find(const GidBytes& gid);
  void hold(Frame frame);
  void forget(const GidBytes& gid);
  void clear();
  // What was answered; nullptr: not yet.
  [[nodiscard]] const PathAnswer* known(const GidBytes& gid) const;

 private:
  struct Path {
    AddressHandle handle;
    PathAnswer answer{};
    bool asking = false;
    Time not_before;  // after a query that failed
    std::deque<Frame> waiting;
  };
  void ask(const GidBytes& gid, Path& path);
  void settle(const GidBytes& gid, const Result<PathAnswer>& answer);

  Loop& loop_;
  const Port& port_;
  SaClient& client_;
  Graveyard graveyard_;
  u16 pkey_;
  Deliver deliver_;
  std::unordered_map<GidBytes, Path, BytesHash> paths_;
  u32 epoch_ = 0;
};

}  // namespace softib::ipoib
