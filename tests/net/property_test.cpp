// Whatever comes: nothing breaks, nothing runs for ever, links stay consistent.
#include <rapidcheck.h>

#include "lab.h"

namespace softib::net::test {

namespace {

using ipc::PortState;

class Quiet : public Observer {
 public:
  void received(PortRef, const Packet&) override { ++got; }
  void port_changed(PortRef) override {}
  void routes_changed(u32) override {}
  u64 got = 0;
};

// Any bytes, but often with a header that gets them past the first checks.
wire::Packet any_packet() {
  wire::Packet packet;
  for (u8& byte : packet.mad) byte = *rc::gen::arbitrary<u8>();
  const auto set = [&](wire::Field field, std::initializer_list<u64> values) {
    if (*rc::gen::weightedElement<bool>({{8, true}, {1, false}}))
      wire::set(packet.mad, field, *rc::gen::elementOf(std::vector<u64>(values)));
  };
  set(wire::header::base_version, {1});
  set(wire::header::class_version, {1});
  set(wire::header::mgmt_class, {0x81, 0x81, 0x01, 0x04});
  set(wire::header::method, {1, 2, 2, 5, 7, 0x81});
  set(wire::header::status, {0, wire::directed_bit});
  set(wire::header::hop_pointer, {0, 1, 2});
  set(wire::header::hop_count, {0, 1, 2, 3, 5, 63});
  set(wire::smp::dr_slid, {wire::permissive_lid, wire::permissive_lid, 10, 20});
  set(wire::smp::dr_dlid, {wire::permissive_lid, wire::permissive_lid, 11, 21});
  set(wire::header::attribute, {0x10, 0x11, 0x12, 0x14, 0x15, 0x15, 0x16, 0x17, 0x18, 0x19, 0x1b, 0x31, 0x1d, 0xff90});
  set(wire::header::modifier, {0, 1, 2, 3, 0x10000, 0x10001, 0x0102, 0x80000002});
  set(wire::smp::m_key, {0});
  for (u32 i = 1; i < 6; ++i) {
    packet.mad[wire::smp::initial_path_at + i] = *rc::gen::inRange<u8>(0, 10);
    packet.mad[wire::smp::return_path_at + i] = *rc::gen::inRange<u8>(0, 10);
  }
  packet.dlid = *rc::gen::element<u16>(0, 10, 11, 20, 21, 50, 0xc000, 0xffff);
  return packet;
}

PortRef any_port(const Network& network) {
  const u32 node = *rc::gen::inRange<u32>(0, network.node_count() + 1);
  return {node, *rc::gen::inRange<u8>(0, 10)};
}

void links_are_consistent(const Network& network) {
  for (u32 node = 0; node < network.node_count(); ++node)
    for (u32 number = 1; number <= network.port_count(node); ++number) {
      const PortRef ref{node, static_cast<u8>(number)};
      const auto other = network.other_end(ref);
      const PortView here = network.port(ref);
      RC_ASSERT((here.state >= PortState::init) == (here.physical == PhysicalState::up));
      RC_ASSERT(here.lid < wire::first_multicast_lid);
      if (!other) {
        RC_ASSERT(here.state == PortState::down);
        continue;
      }
      const PortView there = network.port(*other);
      RC_ASSERT((here.state == PortState::down) == (there.state == PortState::down));
      if (here.state == PortState::down) continue;
      RC_ASSERT(here.speed == there.speed);
      RC_ASSERT(here.width == there.width);
    }
}

bool check(const char* what, const std::function<void()>& property) { return rc::check(what, property); }

}  // namespace

TEST(PropertyTest, AnyMadAtAnyPort) {
  const fabric::Fabric fabric = triangle();
  EXPECT_TRUE(check("any MAD", [&] {
    Quiet observer;
    const auto network = Network::create(fabric, observer);
    const int count = *rc::gen::inRange(1, 30);
    for (int i = 0; i < count; ++i) {
      const u64 before = observer.got;
      network->send(any_port(*network), any_packet());
      RC_ASSERT(observer.got - before < 20U);
    }
    (void)network->on_time(second);
    links_are_consistent(*network);
  }));
}

TEST(PropertyTest, FaultsInAnyOrder) {
  const fabric::Fabric fabric = triangle();
  EXPECT_TRUE(check("faults", [&] {
    Quiet observer;
    const auto network = Network::create(fabric, observer);
    const auto some_port = [] { return PortRef{*rc::gen::inRange<u32>(0, 3), *rc::gen::inRange<u8>(1, 9)}; };
    const int count = *rc::gen::inRange(1, 40);
    for (int i = 0; i < count; ++i) switch (*rc::gen::inRange(0, 6)) {
        case 0:
          network->cut(some_port());
          break;
        case 1:
          network->mend(some_port());
          break;
        case 2:
          network->power(*rc::gen::inRange<u32>(0, 6), *rc::gen::arbitrary<bool>());
          break;
        case 3:
          network->swap_cables(some_port(), some_port());
          break;
        case 4:
          network->limit(some_port(), *rc::gen::element(fabric::Speed::sdr, fabric::Speed::edr), {});
          break;
        default:
          network->send({3, 1}, any_packet());
      }
    links_are_consistent(*network);
  }));
}

TEST(PropertyTest, WalksEnd) {
  const fabric::Fabric fabric = triangle();
  EXPECT_TRUE(check("walks", [&] {
    Quiet observer;
    const auto network = Network::create(fabric, observer);
    const int count = *rc::gen::inRange(1, 30);
    for (int i = 0; i < count; ++i) network->send({3, 1}, any_packet());
    const net::Path path = network->walk({3, 1}, *rc::gen::arbitrary<u16>(), 0, 0xffff);
    RC_ASSERT(path.hops.size() <= 64U);
    for (const net::Path& end : network->walk_multicast({3, 1}, 0xc001, 0, 0xffff)) RC_ASSERT(end.hops.size() <= 5U);
  }));
}

}  // namespace softib::net::test
