// Connected mode: RC queue pairs to hosts that take them. Each carries packets one way; what arrives on those that
// others have made goes into buffers that all of them share.
#pragma once

#include <map>
#include <random>

#include "ipoib/connection_message.h"
#include "ipoib/frame.h"
#include "ipoib/paths.h"

namespace softib::ipoib {

class Connections {
 public:
  static constexpr u32 receives = 128;
  static constexpr u64 tag = u64{1} << 32;  // in wr_id of receives

  struct Uses {
    ibv_cq* sent;
    ibv_cq* received;
    Slots* slots;
    Paths* paths;
    std::function<void(const Frame&)> send;    // by datagram
    std::function<void(const Frame&)> resend;  // what waited for a connection, to be looked at anew
  };
  [[nodiscard]] static Result<std::unique_ptr<Connections>> make(Loop& loop, const Port& port, const Uses& uses);
  Connections(Loop& loop, const Port& port, const Uses& uses) : loop_(loop), port_(port), uses_(uses) {}

  void start(const HardwareAddress& own, u16 pkey_index);
  // Ends all. Peers are told if they can be.
  void stop(bool tell);

  enum class Way : u8 {
    taken,  // the slot is on its way
    waits,  // not now: hold() a frame, or send a datagram
    none,   // this host takes no connections now
  };
  [[nodiscard]] Way send(Slot& slot, EtherType type, const HardwareAddress& to);
  void hold(Frame frame);
  [[nodiscard]] static bool takes_connections(const HardwareAddress& host) {
    return host.flags & HardwareAddress::takes_messages;
  }

  void take(const ConnectionMessage& message);
  // A send of a queue pair that is not the datagrams' has ended.
  void sent(const ibv_wc& wc);
  void received(u32 qpn);  // a packet came
  // Gives up sends that stand still, and receivers that nobody uses.
  void tick(Time now);

  [[nodiscard]] u8* buffer(u64 id) const { return buffers_.buffer(id & ~tag); }
  void give_back(u64 id) { buffers_.give_back(id & ~tag); }
  void post_receives() { buffers_.post(shared_.get(), tag); }

 private:
  struct Outgoing {
    enum class State : u8 { asking, ready, ending } state = State::asking;
    HardwareAddress to;
    u32 number = 0;
    QueuePair pair;
    u32 mtu = 0;
    u32 psn = 0;
    u32 tries = 0;
    u32 outstanding = 0;
    u32 done = 0;       // sends, ever
    u32 done_then = 0;  // at the last tick
    Time progress = Clock::now();
    std::deque<Frame> waiting;
  };
  struct Incoming {
    ConnectionMessage request;
    QueuePair pair;
    Time used;
  };
  [[nodiscard]] Result<QueuePair> make_pair(u32 sends) const;
  [[nodiscard]] Result<void> connect(ibv_qp* pair, const ConnectionMessage& peer, u32 own_psn, bool sends) const;
  void begin(const HardwareAddress& to);
  void ask(Outgoing& connection);
  void retry(const HardwareAddress& to, u32 number);
  void ready(Outgoing& connection, const ConnectionMessage& accepted);
  void end(Outgoing& connection, bool tell);
  void accept(const ConnectionMessage& request);
  template <typename Which>
  void end_incoming(Which which);
  void tell(ConnectionMessage::Kind kind, const HardwareAddress& to, u32 number, u32 qpn, u32 psn);

  Loop& loop_;
  const Port& port_;
  Uses uses_;
  HardwareAddress own_;
  u16 pkey_index_ = 0;
  Receives buffers_;
  SharedReceives shared_;
  std::map<HardwareAddress, std::unique_ptr<Outgoing>> outgoing_;
  std::vector<std::unique_ptr<Outgoing>> ending_;  // sends of theirs are yet to be flushed
  std::unordered_map<u32, Outgoing*> by_qpn_;
  std::unordered_map<u32, Incoming> incoming_;  // by the number of our queue pair
  std::vector<QueuePair> retired_;              // until what they have received is taken: buffers are in it
  std::map<HardwareAddress, Time> not_before_;  // after a connection could not be made
  // At random, so that a service that was started anew is not taken for the one before.
  std::minstd_rand random_{std::random_device{}()};
};

}  // namespace softib::ipoib
