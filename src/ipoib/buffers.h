// Registered memory of an interface: slots that packets are sent from, and buffers that they are received into.
#pragma once

#include <vector>

#include "ipoib/port.h"
#include "ipoib/segments.h"

namespace softib::ipoib {

// A packet on its way from the kernel to the wire. Where it is cut, the headers of its segments lie beside it.
//
//    0                4          6            16
//   +----------------+----------+------------+-----------+
//   | encapsulation  |          | VnetHeader |  packet   |    on a connection
//   +----------------+----------+------------+-----------+
//                                   12: encapsulation         as a datagram
struct Slot {
  static constexpr u32 vnet_at = 6, datagram_at = 12, packet_at = 16;

  u32 number = 0;
  u8* data = nullptr;
  u8* headers = nullptr;
  VnetHeader vnet;
  u32 size = 0;      // of the packet
  u32 requests = 0;  // that it takes to send it

  [[nodiscard]] u8* packet() const { return data + packet_at; }
  [[nodiscard]] View view() const { return {packet(), size}; }
  // As it goes out.
  std::span<u8> as_datagram(EtherType type, u16 marks) const {
    put_encapsulation(data + datagram_at, type, marks);
    return {data + datagram_at, encapsulation_size + size};
  }
  std::span<u8> as_message(EtherType type) const {
    put_encapsulation(data, type);
    std::memcpy(data + vnet_at, &vnet, sizeof vnet);
    return {data, packet_at + size};
  }
};

class Slots {
 public:
  static constexpr u32 count = 64;
  static constexpr u32 most_segments = 64;
  static constexpr u32 room = 65535;  // for a packet

  [[nodiscard]] static Result<Slots> make(ibv_pd* pd);
  [[nodiscard]] bool empty() const { return free_.empty(); }
  [[nodiscard]] Slot& take();
  void give_back(u32 number) { free_.push_back(number); }
  [[nodiscard]] u32 key() const { return region_.key(); }
  [[nodiscard]] Slot& at(u32 number) { return slots_[number]; }

 private:
  Region region_;
  std::vector<Slot> slots_;
  std::vector<u32> free_;
};

// Buffers of one size, posted to a queue pair's receive queue or a shared one.
class Receives {
 public:
  [[nodiscard]] static Result<Receives> make(ibv_pd* pd, u32 count, u32 size);
  [[nodiscard]] u32 count() const { return count_; }
  [[nodiscard]] u8* buffer(u64 number) const { return region_.data() + number * stride_; }

  // Posts it again, later: with post().
  void give_back(u64 number) { idle_.push_back(number); }
  void give_back_all();
  [[nodiscard]] bool all_idle() const { return idle_.size() == count_; }
  // `tag` goes with the buffer's number into wr_id. What can't be posted now stays for the next time.
  void post(ibv_qp* qp, u64 tag);
  void post(ibv_srq* srq, u64 tag);

 private:
  template <typename Post>
  void post_chain(u64 tag, Post post);

  Region region_;
  u32 count_ = 0;
  u32 size_ = 0;
  u64 stride_ = 0;
  std::vector<u64> idle_;
};

}  // namespace softib::ipoib
