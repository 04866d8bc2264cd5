// Any bytes as management packets, one after the other, from any port of a small fabric. Each packet ends somewhere,
// the two ends of a link agree, and time may pass in between.
//
//   one record, the last one filled up with zeros:
//   +------+------+-------------+-----------------+
//   | node | port | destination |  256 bytes MAD  |
//   +------+------+-------------+-----------------+
#include <algorithm>

#include "../require.h"
#include "net/network.h"

namespace {

using namespace softib;
using fuzz::require;

constexpr size_t head_size = 4;
constexpr size_t record_size = head_size + wire::mad_size;
constexpr size_t most_records = 64;

class Counting : public net::Observer {
 public:
  void received(net::PortRef, const net::Packet&) override { ++got; }
  void port_changed(net::PortRef) override {}
  void routes_changed(u32) override {}
  size_t got = 0;
};

fabric::Fabric two_switches() {
  fabric::Fabric fabric = fabric::default_fabric("fuzz");
  fabric.switches.push_back({.name = "sw1"});
  for (const u32 port : {10U, 11U})
    fabric.cables.push_back({{fabric::EndKind::sw, 0, 0, port}, {fabric::EndKind::sw, 1, 0, port}, {}, {}});
  auto completed = fabric::complete(std::move(fabric));
  require(completed.has_value());
  return *completed;
}

void check_links(const net::Network& network) {
  for (u32 node = 0; node < network.node_count(); ++node)
    for (u32 number = 1; number <= network.port_count(node); ++number) {
      const net::PortRef ref{node, static_cast<u8>(number)};
      const auto other = network.other_end(ref);
      const bool up = network.port(ref).state != ipc::PortState::down;
      require(up == (network.port(ref).physical == net::PhysicalState::up));
      require(other ? up == (network.port(*other).state != ipc::PortState::down) : !up);
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, size_t size) {
  static const fabric::Fabric fabric = two_switches();
  Counting observer;
  const auto network = net::Network::create(fabric, observer);
  const size_t records = std::min((size + record_size - 1) / record_size, most_records);
  for (size_t i = 0; i < records; ++i) {
    std::array<u8, record_size> record{};
    std::copy_n(data + i * record_size, std::min(record_size, size - i * record_size), record.begin());
    net::Packet packet;
    packet.dlid = static_cast<u16>(record[2] << 8 | record[3]);
    std::copy_n(record.begin() + head_size, packet.mad.size(), packet.mad.begin());
    const size_t before = observer.got;
    network->send({record[0], record[1]}, packet);
    require(observer.got - before < 100);
    (void)network->on_time((i + 1) * 1'000'000'000ULL);
  }
  check_links(*network);
  return 0;
}
