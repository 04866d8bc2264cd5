// Any bytes as datagrams to a subnet manager that runs a small fabric. An input is a row of records: a byte for the
// sender, one for the queue pairs and the time that passes, one for the length, and so many bytes of a MAD; the rest of
// the MAD is zeros. Whatever came, the manager still leads, and sweeps.
#include <algorithm>
#include <memory>

#include "../require.h"
#include "net/network.h"
#include "sm/subnet_manager.h"
#include "wire/smp_attributes.h"

namespace {

using namespace softib;
using fuzz::require;
constexpr u64 second = 1'000'000'000;

fabric::Fabric two_switches() {
  fabric::Fabric fabric;
  fabric.name = "fuzz";
  const auto sw = [](u32 node, u32 port) { return fabric::CableEnd{fabric::EndKind::sw, node, 0, port}; };
  for (u32 i = 0; i < 2; ++i) {
    fabric.switches.emplace_back().name = "sw" + std::to_string(i);
    fabric.switches.back().ports = 4;
  }
  for (u32 i = 0; i < 4; ++i) {
    fabric::Host& host = fabric.hosts.emplace_back();
    host.name = "h" + std::to_string(i);
    host.hcas.emplace_back().ports.emplace_back();
    fabric.cables.push_back({{fabric::EndKind::hca, i, 0, 1}, sw(i / 2, 1 + i % 2), {}, {}});
  }
  fabric.cables.push_back({sw(0, 3), sw(1, 3), {}, {}});
  auto completed = fabric::complete(std::move(fabric));
  require(completed.has_value());
  return *completed;
}

class World final : public net::Observer, public sm::Mouth {
 public:
  explicit World(const fabric::Fabric& fabric)
      : net_(net::Network::create(fabric, *this)), seat_{net_->hca_node(0, 0), 1} {
    net_->set_capabilities(seat_, wire::port_cap::is_sm, true);
    manager_ = sm::SubnetManager::create({}, net_->port(seat_).guid, *this);
    pass(second);
    require(manager_->subnet_up());
  }

  void send(const wire::Packet& packet) override { net_->send(seat_, packet); }
  void log(std::string_view line) override { require(line.find('\n') == line.npos); }
  void received(net::PortRef at, const wire::Packet& packet) override {
    if (at == seat_ && manager_) manager_->received(packet, now_);
  }
  void port_changed(net::PortRef) override {}
  void routes_changed(u32) override {}

  void inject(const wire::Packet& packet) { manager_->received(packet, now_); }
  void pass(u64 ns) {
    now_ += ns;
    net_->on_time(now_);
    manager_->on_time(now_);
  }
  sm::SubnetManager& manager() { return *manager_; }

 private:
  std::unique_ptr<net::Network> net_;
  net::PortRef seat_;
  std::unique_ptr<sm::SubnetManager> manager_;
  u64 now_ = second;
};

// Set(SMInfo) may end mastership by the rules.
bool is_control(const wire::Packet& packet) {
  return wire::is_smp(packet.mad) && wire::attribute_of(packet.mad) == 0x20;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, size_t size) {
  constexpr size_t most_records = 64;
  static const fabric::Fabric fabric = two_switches();
  World world(fabric);
  size_t records = 0;
  for (size_t at = 0; at + 3 <= size && records < most_records; ++records) {
    wire::Packet packet;
    packet.slid = data[at] % 16;
    packet.source_qp = 1 + (data[at] >> 6);
    packet.destination_qp = data[at + 1] & 1;
    const u64 pause = data[at + 1] >> 1;
    const size_t length = std::min<size_t>(data[at + 2], size - at - 3);
    std::copy_n(data + at + 3, length, packet.mad.begin());
    at += 3 + length;
    if (!is_control(packet)) world.inject(packet);
    if (pause > 64) world.pass(pause * (second / 32));
  }
  world.pass(60 * second);
  world.manager().sweep();
  world.pass(second);
  require(world.manager().state() == sm::State::master);
  require(world.manager().subnet_up());
  return 0;
}
