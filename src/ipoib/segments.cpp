#include "ipoib/segments.h"

#include <algorithm>
#include <cstring>

#include "ipoib/checksum.h"

namespace softib::ipoib {

namespace {

constexpr u32 tcp_least = 20;
constexpr u32 tcp_checksum_at = 16, udp_checksum_at = 6;
constexpr u8 flag_fin = 1, flag_push = 8, flag_ack = 16, flag_cwr = 0x80;

void write_lengths(u8* packet, const IpPacket& ip, u32 size) {
  if (ip.family == Family::v6) {
    put16(packet + 4, static_cast<u16>(size - ip.header_size));
    return;
  }
  put16(packet + 2, static_cast<u16>(size));
  put16(packet + 10, 0);
  put16(packet + 10, checksum({packet, ip.header_size}));
}

}  // namespace

bool finish_checksum(const VnetHeader& header, std::span<u8> packet) {
  if (!(header.flags & VnetHeader::needs_checksum)) return true;
  const u32 start = header.csum_start, at = start + header.csum_offset;
  if (at + 2 > packet.size()) return false;
  // The field holds the sum of the pseudo header, so it counts itself.
  const u16 sum = checksum(packet.subspan(start));
  put16(&packet[at], sum == 0 && header.csum_offset == udp_checksum_at ? 0xffff : sum);
  return true;
}

// -- open checksums

std::optional<VnetHeader> header_of_open(View packet) {
  const auto ip = parse_ip_packet(packet);
  if (!ip || ip->fragment) return std::nullopt;
  const bool tcp = ip->protocol == Protocol::tcp;
  if (!tcp && ip->protocol != Protocol::udp) return std::nullopt;
  VnetHeader header;
  header.flags = VnetHeader::needs_checksum;
  header.csum_start = static_cast<u16>(ip->header_size);
  header.csum_offset = tcp ? tcp_checksum_at : udp_checksum_at;
  if (header.csum_start + header.csum_offset + 2U > ip->size) return std::nullopt;
  return header;
}

bool may_stay_open(const VnetHeader& header, View packet) {
  if (!(header.flags & VnetHeader::needs_checksum)) return false;
  const auto open = header_of_open(packet);
  return open && open->csum_start == header.csum_start && open->csum_offset == header.csum_offset;
}

// -- cutting

std::optional<Cutter> Cutter::of(const VnetHeader& header, View packet) {
  const u8 kind = header.gso_type & ~VnetHeader::ecn;
  const auto ip = parse_ip_packet(packet);
  if (!ip || header.gso_size == 0 || header.csum_offset != tcp_checksum_at) return std::nullopt;
  if (kind != (ip->family == Family::v4 ? VnetHeader::tcp4 : VnetHeader::tcp6)) return std::nullopt;
  const u32 tcp = header.csum_start;  // behind extension headers, too
  if (tcp < ip->header_size || tcp + tcp_least > packet.size()) return std::nullopt;
  const u32 tcp_size = (packet[tcp + 12] >> 4) * 4U;
  if (tcp_size < tcp_least || tcp + tcp_size > packet.size() || tcp + tcp_size > most_header) return std::nullopt;
  Cutter cutter;
  cutter.packet_ = packet.first(ip->size);
  cutter.ip_ = *ip;
  cutter.tcp_at_ = tcp;
  cutter.header_size_ = tcp + tcp_size;
  cutter.step_ = header.gso_size;
  if (cutter.packet_.size() < cutter.header_size_) return std::nullopt;
  return cutter;
}

u32 Cutter::count() const {
  const auto payload = static_cast<u32>(packet_.size()) - header_size_;
  return std::max<u32>(1, (payload + step_ - 1) / step_);
}

Segment Cutter::write(u32 number, u8* to, bool open) const {
  const u32 at = header_size_ + number * step_;
  const bool last = number + 1 == count();
  const Segment segment{header_size_, at, std::min<u32>(step_, static_cast<u32>(packet_.size()) - at)};
  std::memcpy(to, packet_.data(), header_size_);
  u8* tcp = to + tcp_at_;
  put32(tcp + 4, get32(tcp + 4) + number * step_);
  if (!last) tcp[13] &= static_cast<u8>(~(flag_fin | flag_push));
  if (number != 0) tcp[13] &= static_cast<u8>(~flag_cwr);
  if (ip_.family == Family::v4) put16(to + 4, static_cast<u16>(get16(to + 4) + number));
  write_lengths(to, ip_, header_size_ + segment.payload_size);
  const u32 tcp_size = header_size_ - tcp_at_;
  u64 sum = pseudo_header(ip_.source, ip_.destination, Protocol::tcp, tcp_size + segment.payload_size);
  put16(tcp + tcp_checksum_at, open ? fold(sum) : u16{0});
  if (open) return segment;
  sum = sum_words({tcp, tcp_size}, sum);
  put16(tcp + tcp_checksum_at, checksum(packet_.subspan(at, segment.payload_size), sum));
  return segment;
}

// -- putting together

bool has_good_checksum(View packet, const IpPacket& ip) {
  if (ip.fragment || (ip.protocol != Protocol::tcp && ip.protocol != Protocol::udp)) return false;
  const u32 length = ip.size - ip.header_size;
  const u32 at = ip.header_size + (ip.protocol == Protocol::tcp ? tcp_checksum_at : udp_checksum_at);
  if (at + 2 > ip.size) return false;
  if (ip.protocol == Protocol::udp && (get16(&packet[at]) == 0 || get16(&packet[ip.header_size + 4]) != length))
    return false;
  return checksum(packet.subspan(ip.header_size, length),
                  pseudo_header(ip.source, ip.destination, ip.protocol, length)) == 0;
}

std::optional<Gatherer::Tcp> Gatherer::look(std::span<u8> packet) {
  const auto ip = parse_ip_packet(packet);
  if (!ip || ip->protocol != Protocol::tcp || ip->fragment || ip->size < ip->header_size + tcp_least)
    return std::nullopt;
  if (ip->family == Family::v4 && ip->header_size != 20) return std::nullopt;  // options may differ
  const u8* tcp = packet.data() + ip->header_size;
  const u32 header_size = ip->header_size + (tcp[12] >> 4) * 4U;
  if (header_size < ip->header_size + tcp_least || header_size >= ip->size) return std::nullopt;
  if ((tcp[13] & ~flag_push) != flag_ack) return std::nullopt;
  return Tcp{*ip, header_size, get32(tcp + 4), ip->size - header_size, tcp[13]};
}

bool Gatherer::goes_with(std::span<u8> packet, const Tcp& tcp) const {
  if (closed_ || pieces_ == most_pieces || tcp.header_size != first_.header_size || tcp.sequence != next_) return false;
  if (tcp.payload > step_ || size_ + tcp.payload > most_bytes) return false;
  if (tcp.ip.source != first_.ip.source || tcp.ip.destination != first_.ip.destination) return false;
  const bool v4 = tcp.ip.family == Family::v4;
  // Class and time to live, or class, flow label and hop limit.
  if (v4 ? packet[1] != head_[1] || packet[8] != head_[8] || tcp.ip.dont_fragment != first_.ip.dont_fragment
         : std::memcmp(&packet[0], head_, 4) != 0 || packet[7] != head_[7])
    return false;
  const u8* a = packet.data() + tcp.ip.header_size;
  const u8* b = head_ + tcp.ip.header_size;
  const u32 options = tcp.header_size - tcp.ip.header_size - tcp_least;
  // Ports; acknowledgement; header size; window; options.
  return std::memcmp(a, b, 4) == 0 && std::memcmp(a + 8, b + 8, 5) == 0 && std::memcmp(a + 14, b + 14, 2) == 0 &&
         std::memcmp(a + tcp_least, b + tcp_least, options) == 0;
}

bool Gatherer::add(std::span<u8> packet, bool open) {
  const auto tcp = look(packet);
  if (!tcp || !(open || has_good_checksum(packet, tcp->ip))) return false;
  if (pieces_ == 0) {
    first_ = *tcp;
    head_ = packet.data();
    size_ = tcp->header_size;
    step_ = tcp->payload;
    closed_ = false;
    parts_[0] = {head_, tcp->header_size};
  } else if (!goes_with(packet, *tcp)) {
    return false;
  }
  parts_[++pieces_] = {packet.data() + tcp->header_size, tcp->payload};
  size_ += tcp->payload;
  next_ = tcp->sequence + tcp->payload;
  if (tcp->flags & flag_push) head_[first_.ip.header_size + 13] |= flag_push;
  closed_ = tcp->payload < step_ || (tcp->flags & flag_push);
  return true;
}

// The checksum of every piece was right, so the whole one's may be left to whoever wants it: the field gets the sum of
// the pseudo header, as it has when the kernel's own TCP leaves the rest to a network card.
void Gatherer::put_headers() {
  write_lengths(head_, first_.ip, size_);
  const u64 pseudo =
      pseudo_header(first_.ip.source, first_.ip.destination, Protocol::tcp, size_ - first_.ip.header_size);
  put16(head_ + first_.ip.header_size + tcp_checksum_at, fold(pseudo));
}

Gatherer::Gathered Gatherer::take() {
  put_headers();
  VnetHeader header{};
  header.flags = VnetHeader::needs_checksum;
  header.csum_start = static_cast<u16>(first_.ip.header_size);
  header.csum_offset = tcp_checksum_at;
  if (pieces_ > 1) {
    header.gso_type = first_.ip.family == Family::v4 ? VnetHeader::tcp4 : VnetHeader::tcp6;
    header.gso_size = static_cast<u16>(step_);
    header.hdr_len = static_cast<u16>(first_.header_size);
  }
  const u32 count = pieces_ + 1;
  pieces_ = 0;
  return {header, {parts_.data(), count}};
}

}  // namespace softib::ipoib
