// Datagram services, and who listens to what.
#include <gtest/gtest.h>

#include "cm/fixture.h"

namespace softib::cm {
namespace {

ServiceQuestion question(u64 service_id) {
  ServiceQuestion asked;
  asked.port = 1;
  asked.path = some_path();
  asked.service_id = service_id;
  asked.timeout_ns = second;
  asked.max_retries = 3;
  asked.private_data = {7};
  return asked;
}

TEST(CmService, AServiceTellsItsQueuePair) {
  Wire wire;
  const u32 listener = wire.ends[1].manager.create();
  ASSERT_TRUE(wire.ends[1].manager.listen(listener, 5, ~0ULL));
  const u32 id = wire.ends[0].manager.create();
  ASSERT_TRUE(wire.ends[0].manager.ask_service(id, question(5), wire.now));
  wire.settle();
  const Event& request = wire.ends[1].last(Happening::sidr_received);
  EXPECT_EQ(request.listener, listener);
  EXPECT_EQ(request.private_data[0], 7);
  ASSERT_TRUE(wire.ends[1].manager.answer_service(request.id, {.qpn = 0x77, .qkey = 0x1234, .private_data = {8}}));
  wire.settle();
  const Event& told = wire.ends[0].last(Happening::sidr_answered);
  EXPECT_EQ(told.status, 0);
  EXPECT_EQ(told.remote_qpn, 0x77u);
  EXPECT_EQ(told.qkey, 0x1234u);
  EXPECT_EQ(told.private_data[0], 8);
}

TEST(CmService, NobodyThereIsUnsupported) {
  Wire wire;
  const u32 id = wire.ends[0].manager.create();
  ASSERT_TRUE(wire.ends[0].manager.ask_service(id, question(5), wire.now));
  wire.settle();
  EXPECT_EQ(wire.ends[0].last(Happening::sidr_answered).status, static_cast<u16>(SidrStatus::unsupported));
}

TEST(CmService, SilenceIsAFailure) {
  Wire wire;
  wire.loses = [](u32, const wire::Packet&) { return true; };
  const u32 id = wire.ends[0].manager.create();
  ASSERT_TRUE(wire.ends[0].manager.ask_service(id, question(5), wire.now));
  wire.pass(5 * second);
  EXPECT_EQ(wire.count_sent(wire::cm::Attribute::sidr_req), 4u);
  EXPECT_EQ(wire.ends[0].count(Happening::sidr_failed), 1u);
}

TEST(CmService, ARequestThatIsDestroyedIsRejected) {
  Wire wire;
  const u32 listener = wire.ends[1].manager.create();
  ASSERT_TRUE(wire.ends[1].manager.listen(listener, 5, ~0ULL));
  const u32 id = wire.ends[0].manager.create();
  ASSERT_TRUE(wire.ends[0].manager.ask_service(id, question(5), wire.now));
  wire.settle();
  wire.ends[1].manager.destroy(wire.ends[1].last(Happening::sidr_received).id, wire.now);
  wire.settle();
  EXPECT_EQ(wire.ends[0].last(Happening::sidr_answered).status, static_cast<u16>(SidrStatus::reject));
}

TEST(CmService, ARepeatedQuestionIsOne) {
  Wire wire;
  const u32 listener = wire.ends[1].manager.create();
  ASSERT_TRUE(wire.ends[1].manager.listen(listener, 5, ~0ULL));
  const u32 id = wire.ends[0].manager.create();
  ASSERT_TRUE(wire.ends[0].manager.ask_service(id, question(5), wire.now));
  wire.pass(2 * second + second / 2);
  EXPECT_EQ(wire.ends[1].count(Happening::sidr_received), 1u);
}

TEST(CmListen, MasksNameRangesOfServices) {
  Wire wire;
  Manager& manager = wire.ends[1].manager;
  const u32 range = manager.create(), one = manager.create(), twice = manager.create();
  ASSERT_TRUE(manager.listen(range, 0x1000, ~0xfULL));
  ASSERT_TRUE(manager.listen(one, 0x2000, ~0ULL));
  EXPECT_EQ(to_int(manager.listen(twice, 0x2000, ~0ULL).error()), EBUSY);
  wire.ask(some_parameters(0x1007));
  EXPECT_EQ(wire.ends[1].last(Happening::req_received).listener, range);
  ConnectParameters other = some_parameters(0x2000);
  other.qpn = 0x999;
  wire.ask(other);
  EXPECT_EQ(wire.ends[1].last(Happening::req_received).listener, one);
  manager.destroy(one, wire.now);
  EXPECT_TRUE(manager.listen(twice, 0x2000, ~0ULL));
}

}  // namespace
}  // namespace softib::cm
