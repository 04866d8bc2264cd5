// The traffic of an interface: packets from the kernel to the wire, and back.
#include <fmt/format.h>

#include <algorithm>

#include "ipoib/interface.h"

namespace softib::ipoib {

namespace {

constexpr u32 batch = 64;  // packets of one direction before the other has its turn
constexpr std::size_t most_destinations = 16'384;

// The type says so, and the packet as well.
bool is_ip(EtherType type, View packet) {
  if (packet.empty()) return false;
  return (type == EtherType::ipv4 && packet[0] >> 4 == 4) || (type == EtherType::ipv6 && packet[0] >> 4 == 6);
}

}  // namespace

bool Interface::move() {
  const bool received = take_received();
  return read_packets() || received;
}

// -- from the kernel to the wire

// Slots are taken back soon, so that the next packet comes into memory that is in the cache. A single packet is most
// often all that there is: then epoll tells of the next, and no read is in vain.
bool Interface::read_packets() {
  if (lost_ || !(readable_ || paused_)) return false;
  constexpr u32 few = 4;
  u32 count = 0;
  for (bool more = true; more && count < batch;) {
    if (count % few == 0) take_sent();
    more = can_send() && read_packet();
    count += more ? 1 : 0;
  }
  if (!can_send()) take_sent();
  const bool full = !can_send();
  readable_ = full || count > 1;
  if (!lost_ && full != paused_) around_.loop.pause(tun_.fd(), paused_ = full);
  return count > 1;
}

bool Interface::read_packet() {
  Slot& slot = slots_.take();
  const auto size = tun_.read({slot.data + Slot::vnet_at, sizeof slot.vnet + Slots::room});
  if (!size) {
    slots_.give_back(slot.number);
    if (errno == EBADFD) lose_device();
    return false;
  }
  std::memcpy(&slot.vnet, slot.data + Slot::vnet_at, sizeof slot.vnet);
  slot.size = *size - static_cast<u32>(sizeof slot.vnet);
  send_packet(slot);
  return true;
}

bool Interface::take_sent() {
  ibv_wc done[batch];
  bool any = false, failed = false;
  for (int count; (count = ::ibv_poll_cq(sent_.get(), batch, done)) > 0;) {
    for (int i = 0; i < count; ++i) {
      const bool datagram = done[i].qp_num == datagrams_.qpn();
      failed = failed || (datagram && done[i].status != IBV_WC_SUCCESS);
      if (!datagram) connections_->sent(done[i]);
      if (done[i].wr_id == Datagrams::no_slot) continue;
      if (datagram) datagrams_.sent(slots_.at(static_cast<u32>(done[i].wr_id)));
      slots_.give_back(static_cast<u32>(done[i].wr_id));
    }
    any = true;
  }
  if (failed) recover();
  return any;
}

// The kernel's own neighbour discovery does not speak on a TUN device; what a program sends of it goes out as it is.
void Interface::send_packet(Slot& slot) {
  const auto ip = parse_ip_packet(slot.view());
  if (!ip || !up_) {
    slots_.give_back(slot.number);
    return;
  }
  // A report to routers: the kernel has joined or left a group.
  constexpr u8 hop_by_hop = 0;
  const bool report =
      ip->protocol == Protocol::igmp || (ip->family == Family::v6 && static_cast<u8>(ip->protocol) == hop_by_hop);
  if (report) [[unlikely]]
    around_.loop.after(milliseconds(0), [this] { look_at_groups(); });
  const EtherType type = ip->family == Family::v4 ? EtherType::ipv4 : EtherType::ipv6;
  if (ip->destination.is_multicast())
    send_to_group(slot, type, groups_->gid_of(ip->destination));
  else
    send_unicast(slot, type, ip->destination);
}

bool Interface::is_broadcast(const Ip& ip) const {
  if (ip.family != Family::v4) return false;
  constexpr u8 longest_with_broadcast = 30;
  return get32(ip.bytes.data()) == 0xffff'ffff ||
         std::any_of(addresses_.begin(), addresses_.end(), [&](const Prefixed& own) {
           return own.ip.family == Family::v4 && own.prefix <= longest_with_broadcast && broadcast_of(own) == ip;
         });
}

const Interface::Destination& Interface::destination_of(const Ip& ip) {
  const auto at = destinations_.find(ip);
  if (at != destinations_.end()) [[likely]]
    return at->second;
  if (destinations_.size() >= most_destinations) destinations_.clear();
  Destination& destination = destinations_[ip];
  destination.is_broadcast = is_broadcast(ip);
  destination.hop = destination.is_broadcast ? ip : around_.netlink.next_hop(tun_.index(), ip).value_or(ip);
  return destination;
}

void Interface::send_unicast(Slot& slot, EtherType type, const Ip& ip) {
  const Destination& destination = destination_of(ip);
  if (destination.is_broadcast) return send_to_group(slot, type, groups_->broadcast());
  Neighbours::Outcome outcome;
  const HardwareAddress* hardware = neighbours_.use(destination.hop, Clock::now(), outcome);
  if (hardware) {
    send_to(slot, type, *hardware);
  } else {
    neighbours_.hold(destination.hop, {slot.vnet, {slot.packet(), slot.packet() + slot.size}});
    slots_.give_back(slot.number);
  }
  if (!outcome.questions.empty()) [[unlikely]]
    handle(std::move(outcome));
}

// Small packets need not wait for a connection.
void Interface::send_connected(Slot& slot, EtherType type, const HardwareAddress& hardware) {
  const auto way = connections_->send(slot, type, hardware);
  if (way == Connections::Way::taken) [[likely]]
    return;
  const bool fits = slot.vnet.gso_type == 0 && slot.size <= mtu_;
  if (way == Connections::Way::none || fits) return send_datagram(slot, type, hardware);
  connections_->hold({type, {slot.vnet, {slot.packet(), slot.packet() + slot.size}}, hardware});
  slots_.give_back(slot.number);
}

void Interface::send_to(Slot& slot, EtherType type, const HardwareAddress& hardware) {
  if (connections_ && Connections::takes_connections(hardware)) return send_connected(slot, type, hardware);
  send_datagram(slot, type, hardware);
}

void Interface::send_datagram(Slot& slot, EtherType type, const HardwareAddress& hardware) {
  if (ibv_ah* handle = paths_->find(hardware.gid)) return transmit(slot, type, target_of(handle, hardware));
  paths_->hold({type, {slot.vnet, {slot.packet(), slot.packet() + slot.size}}, hardware});
  slots_.give_back(slot.number);
}

void Interface::send_to_group(Slot& slot, EtherType type, const GidBytes& mgid) {
  if (ibv_ah* handle = groups_->find(mgid)) return transmit(slot, type, {handle, group_qpn});
  groups_->hold(mgid, {type, {slot.vnet, {slot.packet(), slot.packet() + slot.size}}, {}});
  slots_.give_back(slot.number);
}

void Interface::transmit(Slot& slot, EtherType type, const Target& target) {
  if (datagrams_.send(slot, type, target, mtu_)) [[likely]]
    return;
  const u32 size = slot.vnet.gso_type ? slot.vnet.gso_size + slot.vnet.hdr_len : slot.size;
  if (size > mtu_)
    if (const Bytes message = emit_too_big(slot.view(), mtu_); !message.empty()) tun_.write({}, message);
  slots_.give_back(slot.number);
}

// -- packets that waited, and those that are our own

Slot* Interface::fill_slot(const Held& held) {
  if (slots_.empty()) take_sent();
  if (slots_.empty() || held.packet.size() > Slots::room) return nullptr;
  Slot& slot = slots_.take();
  slot.vnet = held.vnet;
  slot.size = static_cast<u32>(held.packet.size());
  std::copy(held.packet.begin(), held.packet.end(), slot.packet());
  return &slot;
}

void Interface::deliver(const Target& target, const Frame& frame) {
  if (Slot* slot = fill_slot(frame.held)) transmit(*slot, frame.type, target);
}

void Interface::send_frame(const Frame& frame) {
  if (ibv_ah* handle = paths_->find(frame.to.gid))
    deliver(target_of(handle, frame.to), frame);
  else
    paths_->hold(frame);
}

void Interface::send_group_frame(const GidBytes& mgid, Frame frame) {
  if (ibv_ah* handle = groups_->find(mgid))
    deliver({handle, group_qpn}, frame);
  else
    groups_->hold(mgid, std::move(frame));
}

// -- from the wire to the kernel

bool Interface::take_received() {
  ibv_wc done[batch];
  const int count = ::ibv_poll_cq(received_.get(), batch, done);
  bool failed = false;
  for (int i = 0; i < count; ++i) {
    // A datagram larger than the group allows; what is only flushed has a cause elsewhere.
    failed |=
        done[i].qp_num == datagrams_.qpn() && done[i].status != IBV_WC_SUCCESS && done[i].status != IBV_WC_WR_FLUSH_ERR;
    receive(done[i]);
  }
  if (count <= 0) return false;
  flush();
  if (failed) recover();
  datagrams_.post_receives();
  if (connections_) connections_->post_receives();
  return true;
}

void Interface::give_back(u64 buffer) {
  if (buffer & Connections::tag)
    connections_->give_back(buffer);
  else
    datagrams_.give_back(buffer);
}

void Interface::receive(const ibv_wc& wc) {
  if (wc.status != IBV_WC_SUCCESS) return give_back(wc.wr_id);
  if (wc.wr_id & Connections::tag) return receive_message(wc);
  constexpr u32 in_front = encapsulation_size + Datagrams::grh_size;
  const bool own = wc.src_qp == datagrams_.qpn() && wc.slid == port_.attributes().lid;
  if (own || wc.byte_len < in_front) return give_back(wc.wr_id);
  u8* packet = datagrams_.buffer(wc.wr_id) + in_front;
  const auto type = static_cast<EtherType>(get16(packet - encapsulation_size));
  const bool open = get16(packet - encapsulation_size + 2) & open_checksum;
  receive_packet(type, {packet, wc.byte_len - in_front}, open, wc.wr_id);
}

// Connections carry what the other kernel said of the packet: there is nothing to cut, to put together or to check.
void Interface::receive_message(const ibv_wc& wc) {
  connections_->received(wc.qp_num);
  u8* data = connections_->buffer(wc.wr_id);
  if (wc.byte_len > Slot::packet_at) {
    const std::span<u8> packet(data + Slot::packet_at, wc.byte_len - Slot::packet_at);
    if (is_ip(static_cast<EtherType>(get16(data)), packet))
      tun_.write_whole({data + Slot::vnet_at, wc.byte_len - Slot::vnet_at});
  }
  give_back(wc.wr_id);
}

void Interface::receive_packet(EtherType type, std::span<u8> packet, bool open, u64 buffer) {
  const bool ip = is_ip(type, packet);
  if (ip && !is_discovery(packet)) return hand_over(packet, open, buffer);
  std::optional<AddressNews> news;
  if (ip) news = parse_discovery(packet);
  if (type == EtherType::arp) news = parse_arp(packet);
  if (news) take_news(*news);
  if (type == EtherType::connection && connections_)
    if (const auto message = ConnectionMessage::parse(packet)) connections_->take(*message);
  give_back(buffer);
}

void Interface::hand_over(std::span<u8> packet, bool open, u64 buffer) {
  if (!gatherer_.add(packet, open)) {
    flush();
    if (!gatherer_.add(packet, open)) {
      if (const auto header = open ? header_of_open(packet) : VnetHeader{}) tun_.write(*header, packet);
      give_back(buffer);
      return;
    }
  }
  gathered_.push_back(buffer);
}

void Interface::flush() {
  if (gatherer_.empty()) return;
  const auto [header, parts] = gatherer_.take();
  tun_.write(header, parts);
  for (const u64 buffer : gathered_) give_back(buffer);
  gathered_.clear();
}

// The channel tells of both queues, and epoll again of the second when there are two events.
void Interface::take_queue_event() {
  ibv_cq* queue = nullptr;
  void* unused = nullptr;
  if (::ibv_get_cq_event(channel_.get(), &queue, &unused) != 0) return;
  const bool of_sends = queue == sent_.get();
  (of_sends ? sent_armed_ : received_armed_) = false;
  u32& events = of_sends ? sent_events_ : received_events_;
  constexpr u32 often_enough = 1024;  // acknowledging takes a lock
  if (++events >= often_enough) ::ibv_ack_cq_events(queue, std::exchange(events, 0U));
}

// Sends are waited for only where they hold up others.
bool Interface::arm() {
  bool any = false;
  if (paused_ && !sent_armed_) {
    ::ibv_req_notify_cq(sent_.get(), 0);
    sent_armed_ = true;
    any = take_sent();
  }
  if (received_armed_) return any;
  ::ibv_req_notify_cq(received_.get(), 0);
  received_armed_ = true;
  return take_received() || any;
}

}  // namespace softib::ipoib
