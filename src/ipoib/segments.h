// Large TCP packets on the TUN side, small ones on the wire: cutting what the kernel hands over whole, and putting
// together what arrives in a row (as network cards do: TSO, GRO).
#pragma once

#include <sys/uio.h>

#include "ipoib/packets.h"

namespace softib::ipoib {

// virtio_net_hdr of linux/virtio_net.h, which C++ can't read: what a packet still lacks, in front of each on the TUN
// side.
struct VnetHeader {
  static constexpr u8 needs_checksum = 1;              // flags
  static constexpr u8 tcp4 = 1, tcp6 = 4, ecn = 0x80;  // gso_type

  u8 flags = 0;
  u8 gso_type = 0;
  u16 hdr_len = 0;
  u16 gso_size = 0;
  u16 csum_start = 0;
  u16 csum_offset = 0;
};
static_assert(sizeof(VnetHeader) == 10);

// Does what the kernel left to do: the checksum. False: the header makes no sense.
[[nodiscard]] bool finish_checksum(const VnetHeader& header, std::span<u8> packet);

// True: what is left to do is a checksum that may stay open on the way (packets.h).
[[nodiscard]] bool may_stay_open(const VnetHeader& header, View packet);
// What the receiver's kernel is told of such a packet; nullopt: it has no checksum of that kind.
[[nodiscard]] std::optional<VnetHeader> header_of_open(View packet);

// One packet of those that a large one is cut into: its own headers, and a part of the large one's payload.
struct Segment {
  u32 header_size;
  u32 payload_at;  // in the large packet
  u32 payload_size;
};

// Cuts a TCP packet. Headers are written to `headers` in steps of `header_room` bytes, each `lead` bytes in.
class Cutter {
 public:
  static constexpr u32 header_room = 192;
  static constexpr u32 most_header = header_room - 16;  // and some room for encapsulation

  // nullopt: not something that can be cut.
  [[nodiscard]] static std::optional<Cutter> of(const VnetHeader& header, View packet);
  [[nodiscard]] u32 count() const;
  [[nodiscard]] u32 segment_size() const { return header_size_ + step_; }  // the largest
  // The n-th segment; its headers go to `to`, which has room for most_header bytes. `open`: its checksum, too.
  Segment write(u32 number, u8* to, bool open) const;

 private:
  View packet_;
  IpPacket ip_;
  u32 tcp_at_ = 0;
  u32 header_size_ = 0;  // IP and TCP
  u32 step_ = 0;         // payload of each but the last
};

// Puts TCP packets that follow one another into one.
class Gatherer {
 public:
  static constexpr u32 most_pieces = 64;
  static constexpr u32 most_bytes = 65535;

  // False: it does not go with what is there (or with anything, when nothing is there). The packet stays where it is
  // until flushed. `open`: its checksum is.
  [[nodiscard]] bool add(std::span<u8> packet, bool open);
  [[nodiscard]] bool empty() const { return pieces_ == 0; }
  // Headers and payload, ready for one write to the TUN device; add() starts anew.
  struct Gathered {
    VnetHeader header;
    std::span<const iovec> parts;
  };
  [[nodiscard]] Gathered take();

 private:
  struct Tcp {
    IpPacket ip;
    u32 header_size;
    u32 sequence;
    u32 payload;
    u8 flags;
  };
  [[nodiscard]] static std::optional<Tcp> look(std::span<u8> packet);
  [[nodiscard]] bool goes_with(std::span<u8> packet, const Tcp& tcp) const;
  void put_headers();

  std::array<iovec, most_pieces + 1> parts_{};
  u32 pieces_ = 0;
  u32 size_ = 0;         // of the packet
  u32 next_ = 0;         // sequence number that comes next
  u32 step_ = 0;         // payload of the first
  bool closed_ = false;  // a shorter one, or one with PSH, was the last
  Tcp first_{};
  u8* head_ = nullptr;
};

// True: the checksum of a TCP or UDP packet is there and right.
[[nodiscard]] bool has_good_checksum(View packet, const IpPacket& ip);

}  // namespace softib::ipoib
