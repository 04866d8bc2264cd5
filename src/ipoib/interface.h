// One interface: a TUN device on one side, the fabric on the other.
#pragma once

#include "ipoib/connections.h"
#include "ipoib/groups.h"
#include "ipoib/netlink.h"
#include "ipoib/paths.h"
#include "ipoib/tun.h"

namespace softib::ipoib {

// What all interfaces of the process share.
struct Surroundings {
  Loop& loop;
  Netlink& netlink;
  bool verbose = false;
};

class Interface {
 public:
  [[nodiscard]] static Told<std::unique_ptr<Interface>> make(Surroundings around, const Port& port, SaClient& client,
                                                             const InterfaceOptions& options);
  Interface(Surroundings around, const Port& port, SaClient& client, const InterfaceOptions& options, Tun tun);
  ~Interface();

  void start();
  void leave();
  [[nodiscard]] const InterfaceOptions& options() const { return options_; }
  // Up, or known not to be up soon.
  [[nodiscard]] bool is_settled() const;

  void port_changed(ibv_event_type event);  // after Port::refresh()
  void addresses_changed();
  void routes_changed() { destinations_.clear(); }
  void look_at_groups();

  // For the loop: a batch of packets each way; and what wakes it when there are more.
  bool move();
  bool arm();

 private:
  [[nodiscard]] Told<void> make_queues();
  [[nodiscard]] Told<void> configure();
  void note(const std::string& text) const;

  // -- state of the link
  [[nodiscard]] Told<void> make_connections();
  void bring_up();
  void bring_down();
  void lose_device();
  void raise_carrier();
  void stop_datagrams();
  void recover();
  void ready(const GroupFacts& facts);
  void announce();
  void tick();

  // -- from the kernel to the wire
  struct Destination {
    bool is_broadcast = false;
    Ip hop;
  };
  bool read_packets();  // true: there may be more
  bool read_packet();
  [[nodiscard]] bool can_send() const { return !slots_.empty() && datagrams_.has_room(); }
  void send_packet(Slot& slot);
  void send_unicast(Slot& slot, EtherType type, const Ip& destination);
  void send_to_group(Slot& slot, EtherType type, const GidBytes& mgid);
  void send_connected(Slot& slot, EtherType type, const HardwareAddress& hardware);
  void send_datagram(Slot& slot, EtherType type, const HardwareAddress& hardware);
  void send_to(Slot& slot, EtherType type, const HardwareAddress& hardware);
  void transmit(Slot& slot, EtherType type, const Target& target);
  [[nodiscard]] Slot* fill_slot(const Held& held);  // nullptr: none is free
  void send_frame(const Frame& frame);
  void send_group_frame(const GidBytes& mgid, Frame frame);
  void deliver(const Target& target, const Frame& frame);
  [[nodiscard]] const Destination& destination_of(const Ip& ip);
  [[nodiscard]] bool is_broadcast(const Ip& ip) const;
  bool take_sent();

  // -- from the wire to the kernel
  bool take_received();
  void receive(const ibv_wc& wc);
  void receive_message(const ibv_wc& wc);
  void give_back(u64 buffer);
  void receive_packet(EtherType type, std::span<u8> packet, bool open, u64 buffer);
  void hand_over(std::span<u8> packet, bool open, u64 buffer);
  void flush();
  void take_queue_event();

  // -- who is where
  void take_news(const AddressNews& news);
  void answer(const AddressNews& question);
  void ask(const Neighbours::Question& question);
  void handle(Neighbours::Outcome outcome);
  [[nodiscard]] bool is_own(const Ip& ip) const;
  [[nodiscard]] Ip own_for(const Ip& target) const;

  Surroundings around_;
  const Port& port_;
  SaClient& client_;
  InterfaceOptions options_;
  Tun tun_;
  Channel channel_;
  CompletionQueue sent_, received_;
  Slots slots_;
  Datagrams datagrams_;
  std::unique_ptr<Groups> groups_;
  std::unique_ptr<Paths> paths_;
  std::unique_ptr<Connections> connections_;  // in connected mode
  Neighbours neighbours_;
  Gatherer gatherer_;
  std::vector<u64> gathered_;  // buffers
  std::vector<Prefixed> addresses_;
  std::unordered_map<Ip, Destination, BytesHash> destinations_;
  HardwareAddress own_;
  u32 mtu_ = 2044;                             // of what goes by UD
  u32 received_events_ = 0, sent_events_ = 0;  // not acknowledged yet
  bool received_armed_ = false, sent_armed_ = false;
  bool readable_ = true;  // there may be packets to read
  bool paused_ = false;   // there is no room to send what would be read
  bool up_ = false;
  bool lost_ = false;
};

}  // namespace softib::ipoib
