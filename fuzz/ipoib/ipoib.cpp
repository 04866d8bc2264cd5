// What comes from the wire, and large packets as the kernel hands them over. Packets in a row, each with its size in
// front:
//
//   +---------+----------+----------------------+
//   | size 2  |  type 2  |   bytes              |    type: an EtherType; 0: a VnetHeader and a packet to be cut
//   +---------+----------+----------------------+
#include <algorithm>
#include <deque>

#include "../require.h"
#include "ipoib/connection_message.h"
#include "ipoib/segments.h"

namespace {

using namespace softib;
using namespace softib::ipoib;
using fuzz::require;

void check_arp(View bytes) {
  const auto news = parse_arp(bytes);
  if (!news) return;
  const auto again = parse_arp(emit_arp(*news, {}));
  require(again && again->kind == news->kind && again->sender == news->sender && again->target == news->target &&
          again->sender_hardware == news->sender_hardware);
}

void check_discovery(View bytes) {
  const auto news = parse_discovery(bytes);
  if (!news) return;
  const auto again = parse_discovery(emit_discovery(*news, news->target, true));
  require(again && again->kind == news->kind && again->target == news->target &&
          again->sender_hardware == news->sender_hardware);
}

void check_message(View bytes) {
  if (const auto message = ConnectionMessage::parse(bytes))
    require(ConnectionMessage::parse(message->emit()) == message);
}

void check_errors(View bytes) {
  for (const Bytes& message : {emit_too_big(bytes, 2044), emit_unreachable(bytes)}) {
    if (message.empty()) continue;
    const auto ip = parse_ip_packet(message);
    require(ip && ip->size == message.size());
    require(emit_unreachable(message).empty());
  }
}

void cut(View bytes) {
  VnetHeader header;
  if (bytes.size() < sizeof header) return;
  std::memcpy(&header, bytes.data(), sizeof header);
  Bytes packet(bytes.begin() + sizeof header, bytes.end());
  static_cast<void>(finish_checksum(header, packet));
  const auto cutter = Cutter::of(header, packet);
  if (!cutter) return;
  std::array<u8, Cutter::most_header> head;
  u32 next = 0;
  const bool open = may_stay_open(header, packet);
  for (u32 i = 0; i < cutter->count(); ++i) {
    const Segment segment = cutter->write(i, head.data(), open);
    require(segment.header_size <= head.size() && segment.header_size + segment.payload_size <= cutter->segment_size());
    require(segment.payload_at + segment.payload_size <= packet.size());
    require(i == 0 || segment.payload_at == next);
    next = segment.payload_at + segment.payload_size;
  }
}

// With a checksum, or with an open one.
class Receiver {
 public:
  explicit Receiver(bool open) : open_(open) {}
  void take(View bytes) {
    kept_.emplace_back(bytes.begin(), bytes.end());
    if (gatherer_.add(kept_.back(), open_)) return;
    flush();
    if (gatherer_.add(kept_.back(), open_)) return;
    if (const auto header = header_of_open(kept_.back())) require(finish_checksum(*header, kept_.back()));
  }
  void flush() {
    if (gatherer_.empty()) return;
    Bytes together;
    const auto [header, parts] = gatherer_.take();
    for (const iovec& part : parts) {
      const auto* at = static_cast<const u8*>(part.iov_base);
      together.insert(together.end(), at, at + part.iov_len);
    }
    const auto ip = parse_ip_packet(together);
    require(ip && ip->size == together.size() && ip->protocol == Protocol::tcp);
    require(finish_checksum(header, together) && has_good_checksum(together, *ip));
  }

 private:
  bool open_;
  Gatherer gatherer_;
  std::deque<Bytes> kept_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, size_t size) {
  constexpr std::size_t head = 4;
  Receiver receiver(false), trusting(true);
  for (View rest(data, size); rest.size() >= head;) {
    const u16 type = get16(&rest[2]);
    const View bytes = rest.subspan(head, std::min<std::size_t>(get16(rest.data()), rest.size() - head));
    rest = rest.subspan(head + bytes.size());
    if (type == 0) cut(bytes);
    if (type == static_cast<u16>(EtherType::arp)) check_arp(bytes);
    if (type == static_cast<u16>(EtherType::connection)) check_message(bytes);
    if (type != static_cast<u16>(EtherType::ipv4) && type != static_cast<u16>(EtherType::ipv6)) continue;
    check_discovery(bytes);
    check_errors(bytes);
    receiver.take(bytes);
    trusting.take(bytes);
  }
  receiver.flush();
  trusting.flush();
  return 0;
}
