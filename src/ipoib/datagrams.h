// The UD queue pair of an interface: all of datagram mode goes through it, and what everyone must hear in connected
// mode.
#pragma once

#include "ipoib/buffers.h"

namespace softib::ipoib {

// Whom a datagram goes to.
struct Target {
  ibv_ah* handle = nullptr;
  u32 qpn = 0;
  bool takes_open = false;  // checksums
};
[[nodiscard]] inline Target target_of(ibv_ah* handle, const HardwareAddress& to) {
  return {handle, to.qpn, (to.flags & HardwareAddress::takes_open) != 0};
}
inline constexpr u32 group_qpn = 0xff'ffff;

class Datagrams {
 public:
  // A few milliseconds of a stream, as long as its receiver may have to wait for a processor: what finds no buffer is
  // lost. With more of them each is out of the cache by the time that its turn comes.
  static constexpr u32 receives = 2048;
  static constexpr u32 sends = 1024;
  static constexpr u32 grh_size = 40;
  static constexpr u64 no_slot = ~u64{0};  // wr_id of requests that aren't the last of their slot

  [[nodiscard]] static Result<Datagrams> make(const Port& port, ibv_cq* sent, ibv_cq* received, Slots& slots);

  [[nodiscard]] u32 qpn() const { return pair_->qp_num; }
  [[nodiscard]] ibv_qp* pair() const { return pair_.get(); }
  [[nodiscard]] bool ready() const { return ready_; }

  // Joins a partition with a key; all receives are posted. `link_mtu`: the largest datagram, with its encapsulation.
  [[nodiscard]] Result<void> start(const Port& port, u16 pkey_index, u32 qkey, u32 link_mtu);
  [[nodiscard]] Result<void> restart() { return start(*port_, pkey_index_, qkey_, link_mtu_); }
  [[nodiscard]] Result<void> change_qkey(u32 qkey);
  // After an error completion. False: it takes a new start.
  [[nodiscard]] bool recover();
  // Nothing more comes or goes. What was posted comes back as flushed, and must be taken until busy() says no.
  void stop();
  [[nodiscard]] bool busy() const { return outstanding_ != 0 || !receives_.all_idle(); }
  // The last send of a slot is done.
  void sent(const Slot& slot) {
    --outstanding_;
    requests_outstanding_ -= slot.requests;
  }
  // For any packet, cut or not.
  [[nodiscard]] bool has_room() const { return requests_outstanding_ + Slots::most_segments <= sends; }

  // Sends a packet that fits, or cuts it. False: it can't go, and the slot is still the caller's.
  [[nodiscard]] bool send(Slot& slot, EtherType type, const Target& target, u32 mtu);

  // A buffer as it was received, the packet in it behind GRH and encapsulation header.
  [[nodiscard]] u8* buffer(u64 number) const { return receives_.buffer(number); }
  void give_back(u64 number) { receives_.give_back(number); }
  void post_receives() {
    if (ready_) receives_.post(pair_.get(), 0);
  }

 private:
  [[nodiscard]] bool send_whole(Slot& slot, EtherType type, const Target& target, u16 marks);
  [[nodiscard]] bool send_cut(Slot& slot, const Cutter& cutter, EtherType type, const Target& target);
  [[nodiscard]] bool post(u32 count, Slot& slot, const Target& target);

  QueuePair pair_;
  Receives receives_;
  Slots* slots_ = nullptr;
  u32 qkey_ = 0;
  u16 pkey_index_ = 0;
  u32 link_mtu_ = 0;
  const Port* port_ = nullptr;
  u32 outstanding_ = 0;  // slots
  u32 requests_outstanding_ = 0;
  bool ready_ = false;
  std::array<ibv_send_wr, Slots::most_segments> requests_{};
  std::array<std::array<ibv_sge, 2>, Slots::most_segments> parts_{};
};

}  // namespace softib::ipoib
