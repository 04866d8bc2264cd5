// All RMPP transfers of one queue pair: which segment belongs to which, and their timers.
#pragma once

#include <compare>
#include <deque>
#include <map>

#include "wire/rmpp.h"

namespace softib::wire::rmpp {

// The other side of a transaction.
struct Peer {
  u16 lid = 0;
  u32 qp = 1;
  u64 transaction = 0;
  MgmtClass mgmt_class = MgmtClass::subn_adm;
  friend auto operator<=>(const Peer&, const Peer&) = default;
};

class Exchange {
 public:
  class Owner {
   public:
    virtual ~Owner() = default;
    virtual void transmit(const Peer& peer, const Mad& mad) = 0;
    virtual void arrived(const Peer& peer, Message message) = 0;
    virtual void sent(const Peer& peer, Outcome outcome, Status status) = 0;
    // Nothing is left of the transfers with this peer.
    virtual void forgotten(const Peer& peer) = 0;
  };

  explicit Exchange(Owner& owner) : Exchange(owner, Timing(), 1024) {}
  Exchange(Owner& owner, const Timing& timing, u32 most_receivers)
      : owner_(owner), timing_(timing), most_receivers_(most_receivers) {}

  // Replaces a transfer to the same peer that is still under way.
  void send(const Peer& peer, Message message, u64 now);
  // A MAD with is_active(). May be called from within transmit().
  void received(const Peer& peer, const Mad& mad, u64 now);
  // Gives when to call again.
  u64 on_time(u64 now);
  [[nodiscard]] bool idle() const { return senders_.empty() && receivers_.empty(); }

 private:
  struct Arrival {
    Peer peer;
    Mad mad;
  };
  void process(u64 now);
  void take(const Arrival& arrival, u64 now);
  void take_data(const Arrival& arrival, u64 now);
  void push(const Peer& peer, u64 now);
  void linger(const Peer& peer);
  void expire(u64 now);
  void forget_if_unused(const Peer& peer);
  [[nodiscard]] u64 deadline() const;

  Owner& owner_;
  Timing timing_;
  u32 most_receivers_;
  std::map<Peer, Sender> senders_;
  std::map<Peer, Receiver> receivers_;  // those that are done stay a while, to acknowledge repeated segments
  std::deque<Peer> done_;               // of those, in the order in which they were done
  std::deque<Arrival> arrivals_;
  bool busy_ = false;
};

}  // namespace softib::wire::rmpp
