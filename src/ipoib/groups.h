// The multicast groups of an interface: the broadcast group, those that the kernel has joined, those that are only sent
// to.
#pragma once

#include <set>

#include "ipoib/frame.h"
#include "ipoib/sa_records.h"

namespace softib::ipoib {

class Groups {
 public:
  struct Uses {
    Deliver deliver;
    // The broadcast group is joined, for the first time since start() or with other facts than before.
    std::function<void(const GroupFacts&)> ready;
  };
  Groups(Loop& loop, const Port& port, SaClient& client, ibv_qp* pair, u16 pkey, Uses uses);

  // Joins the broadcast group, and goes on trying until it is; then the others.
  void start();
  // The subnet manager may have forgotten: joins all again, and uses what was known until it is answered.
  void rejoin();
  // The port is down: nothing is joined any more, and nobody is there to be told.
  void stop();
  void leave();

  // The groups that packets are wanted from, besides the broadcast group.
  void want(const std::vector<Ip>& groups);
  [[nodiscard]] GidBytes broadcast() const { return space_.broadcast(); }
  [[nodiscard]] GidBytes gid_of(const Ip& ip) const { return space_.group(ip); }
  // nullptr: being joined; hold() a frame.
  [[nodiscard]] ibv_ah* find(const GidBytes& mgid);
  void hold(const GidBytes& mgid, Frame frame);
  // A try to join the broadcast group has ended, either way.
  [[nodiscard]] bool tried() const { return tried_; }

 private:
  struct Member {
    JoinState state = JoinState::full;
    bool joining = false;
    bool attached = false;
    AddressHandle handle;  // there once joined
    GroupFacts facts;
    milliseconds backoff{0};
    Time not_before;
    std::deque<Frame> waiting;
  };
  void join(const GidBytes& mgid, Member& member, bool create);
  void settle(const GidBytes& mgid, const Result<GroupFacts>& answer, bool created);
  void joined(const GidBytes& mgid, Member& member, const GroupFacts& facts);
  void retry(const GidBytes& mgid, Member& member);
  void follow();
  void attach(Member& member);
  void detach(Member& member);
  [[nodiscard]] Membership membership(const GidBytes& mgid, JoinState state) const;
  [[nodiscard]] GroupFacts facts_for_creation(const GidBytes& mgid) const;
  [[nodiscard]] bool is_ready();

  Loop& loop_;
  const Port& port_;
  SaClient& client_;
  ibv_qp* pair_;
  Graveyard graveyard_;
  GroupSpace space_;
  Uses uses_;
  std::unordered_map<GidBytes, Member, BytesHash> members_;
  std::set<GidBytes> wanted_;
  u32 epoch_ = 0;
  bool tried_ = false;
};

}  // namespace softib::ipoib
