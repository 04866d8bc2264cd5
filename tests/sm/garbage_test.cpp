// Whatever comes: nothing falls over, and the manager goes on with its work.
#include <rapidcheck.h>

#include "world.h"

namespace softib::sm::test {
namespace {

class Swallow final : public Mouth {
 public:
  void send(const wire::Packet&) override { ++sent; }
  void log(std::string_view) override {}
  u64 sent = 0;
};

wire::Packet arbitrary_packet() {
  wire::Packet packet;
  const auto bytes = *rc::gen::container<std::vector<u8>>(256, rc::gen::arbitrary<u8>());
  std::copy(bytes.begin(), bytes.end(), packet.mad.begin());
  packet.slid = *rc::gen::inRange<u16>(0, 30);
  packet.source_qp = *rc::gen::inRange<u32>(0, 3);
  packet.destination_qp = *rc::gen::inRange<u32>(0, 3);
  // Half of them look better than they are.
  if (*rc::gen::arbitrary<bool>()) {
    wire::set(packet.mad, wire::header::base_version, 1);
    wire::set(packet.mad, wire::header::mgmt_class, *rc::gen::element<u8>(0x01, 0x03, 0x81));
    wire::set(packet.mad, wire::header::class_version, *rc::gen::element<u8>(1, 2));
    wire::set(packet.mad, wire::header::method,
              *rc::gen::element<u8>(1, 2, 5, 6, 0x12, 0x13, 0x14, 0x15, 0x81, 0x86, 0x92));
    wire::set(packet.mad, wire::header::attribute,
              *rc::gen::element<u16>(1, 2, 3, 0x11, 0x12, 0x13, 0x14, 0x15, 0x17, 0x18, 0x20, 0x30, 0x31, 0x33, 0x35,
                                     0x36, 0x38, 0x39, 0x3a, 0xf3));
    wire::set(packet.mad, wire::sa::sm_key, *rc::gen::element<u64>(0, 1));
    wire::set(packet.mad, wire::sa::component_mask, *rc::gen::arbitrary<u64>() & *rc::gen::arbitrary<u64>());
  }
  return packet;
}

TEST(Garbage, BeforeAnythingIsKnown) {
  EXPECT_TRUE(rc::check([] {
    Swallow mouth;
    const auto manager = SubnetManager::create({}, 1, mouth);
    for (u64 i = 0; i < 20; ++i) {
      manager->received(arbitrary_packet(), i);
      manager->on_time(i * second);
    }
  }));
}

TEST(Garbage, OnALivingSubnet) {
  EXPECT_TRUE(rc::check([] {
    World world(tree({2, 2, 2}));
    SubnetManager& manager = world.manage(0);
    world.settle();
    for (u32 i = 0; i < 20; ++i) {
      wire::Packet packet = arbitrary_packet();
      // A stranger may take mastership by the rules; that is not what this is about.
      if (wire::attribute_of(packet.mad) == 0x20 && wire::is_smp(packet.mad)) continue;
      manager.received(packet, world.now());
    }
    world.run_for(30 * second);
    manager.sweep();
    world.settle();
    RC_ASSERT(manager.state() == State::master);
    RC_ASSERT(manager.subnet_up());
  }));
}

}  // namespace
}  // namespace softib::sm::test
