#include "daemon/plane/shapes.h"

#include "fabric/rates.h"

namespace softib::daemon {

using net::Hop;

namespace {

// PortXmitWait counts in ticks of the device's choice: here the time that a word of four bytes takes.
u64 ticks(u64 waited_ns, u64 mbps) { return static_cast<u64>(static_cast<double>(waited_ns) * mbps / 32'000); }

}  // namespace

Shapes::Shapes(ipc::Segment& segment, net::Network& network, bool paced)
    : segment_(segment), network_(network), paced_(paced), indices_(network.node_count()), known_(1) {
  for (u32 node = 0; node < network.node_count(); ++node) indices_[node].resize(network.port_count(node) + 1U);
}

u32 Shapes::record_of(const Hop& hop) {
  u32& index = indices_[hop.out.node][hop.out.port];
  if (index == 0 && known_.size() < ipc::max_links) {
    index = static_cast<u32>(known_.size());
    known_.push_back({hop});
  }
  // Cables that were swapped since lead elsewhere: what is lost is counted at the new end.
  if (index) known_[index].hop = hop;
  return index;
}

void Shapes::refresh(u32 link) {
  const net::PortView port = network_.port(known_[link].hop.out);
  const net::LinkQuality quality = network_.quality(known_[link].hop.out);
  ipc::Link& record = segment_.links[link];
  const u64 mbps = paced_ ? fabric::data_mbps(port.speed, port.width) : 0;
  record.mbps.store(static_cast<u32>(mbps), std::memory_order_relaxed);
  record.delay_ns.store(quality.delay_ns, std::memory_order_relaxed);
  record.drop.store(quality.drop, std::memory_order_relaxed);
  record.bit_errors.store(quality.bit_error_rate, std::memory_order_relaxed);
}

std::vector<u32> Shapes::of(std::span<const Hop> hops) {
  std::vector<u32> links;
  for (const Hop& hop : hops) {
    if (!paced_ && network_.quality(hop.out) == net::LinkQuality{}) continue;
    const u32 link = record_of(hop);
    if (link == 0) continue;
    refresh(link);
    links.push_back(link);
  }
  return links;
}

void Shapes::settle() {
  for (u32 link = 1; link < known_.size(); ++link) {
    Known& known = known_[link];
    const ipc::Link& record = segment_.links[link];
    const u64 lost = record.lost_packets.load(std::memory_order_relaxed);
    const u64 waited = record.waited_ns.load(std::memory_order_relaxed);
    network_.count(known.hop.in, net::Cause::receive_error, lost - known.lost);
    known.lost = lost;
    // What is sent while others wait takes back a little; a counter doesn't go back.
    if (const auto more = static_cast<i64>(waited - known.waited_ns); more > 0) {
      const u32 mbps = record.mbps.load(std::memory_order_relaxed);
      network_.count(known.hop.out, net::Cause::xmit_wait, ticks(static_cast<u64>(more), mbps));
      known.waited_ns = waited;
    }
  }
}

}  // namespace softib::daemon
