// Several threads at once on the same QPs, CQs and receive queues. Run under the thread sanitizer too.
#include <gtest/gtest.h>

#include "engine/world.h"

namespace softib::test {
namespace {

TEST(Threads, DatagramsFromBothSidesIntoOneQueueAreAllThere) {
  World world;
  auto memory1 = world.memory(1, 65536);
  auto memory2 = world.memory(2, 65536);
  u32 key1 = world.key(*memory1, all_access), key2 = world.key(*memory2, all_access);
  u32 rcq = world.cq(1024);
  u32 target = world.qp(2, QpType::ud, world.cq(), rcq);
  constexpr int senders = 4, rounds = 200;
  std::vector<u32> qps, ahs;
  for (int i = 0; i < senders; ++i) {
    u32 slot = i % 2 + 1;
    qps.push_back(world.qp(slot, QpType::ud, world.cq(1024), world.cq()));
    ahs.push_back(world.ah(slot, 2));
  }
  // Receives come in while datagrams do; each receive is used at most once.
  constexpr u64 most_outstanding = rq_slots - 8;
  u64 posted = 0, completed = 0;
  auto refill = [&] { post_receive(world, target, posted++, {{memory2->address() + 1024, 1024, key2}}); };
  while (posted < most_outstanding) refill();
  std::atomic<int> left{senders};
  std::vector<std::thread> threads;
  for (int i = 0; i < senders; ++i)
    threads.emplace_back([&, i] {
      Send send;
      send.sges = {{i % 2 ? memory2->address() : memory1->address(), 16, i % 2 ? key2 : key1}};
      send.ah = ahs[i];
      send.remote_qpn = target;
      send.qkey = 0x1234;
      for (int n = 0; n < rounds; ++n) {
        post(world, qps[i], send);
        EXPECT_EQ(world.ring(qps[i]), 0);
        EXPECT_EQ(world.poll(world.record(qps[i]).send_cq).size(), 1U);
      }
      left.fetch_sub(1);
    });
  std::vector<int> seen(senders * rounds + rq_slots);
  while (left.load() > 0) {
    if (posted - completed < most_outstanding && posted < seen.size()) refill();
    for (auto& wc : world.poll(rcq)) ++seen.at(wc.wr_id), ++completed;
  }
  for (auto& t : threads) t.join();
  for (auto& wc : world.poll(rcq, 1024)) ++seen.at(wc.wr_id);
  for (int count : seen) EXPECT_LE(count, 1);
  EXPECT_GT(std::count(seen.begin(), seen.end(), 1), 0);
}

TEST(Threads, ManyDoorbellsOfOneQueueCarryOutEachRequestOnce) {
  World world;
  auto mine = world.memory(1, 4096);
  auto theirs = world.memory(2, 4096);
  u32 lkey = world.key(*mine, all_access), rkey = world.key(*theirs, all_access);
  u32 scq = world.cq(1024);
  u32 a = world.qp(1, QpType::rc, scq, world.cq());
  u32 b = world.qp(2, QpType::rc, world.cq(), world.cq());
  world.connect(a, b);
  std::mutex ring_lock;  // the provider's lock around filling the ring
  constexpr int threads_used = 3, rounds = 300;
  std::vector<std::thread> threads;
  std::atomic<u64> completed{0};
  for (int t = 0; t < threads_used; ++t)
    threads.emplace_back([&] {
      Send add;
      add.opcode = WrOpcode::fetch_add;
      add.sges = {{mine->address(), 8, lkey}};
      add.remote_address = theirs->address();
      add.rkey = rkey;
      add.compare_add = 1;
      for (int n = 0; n < rounds; ++n) {
        // The driver may be a thread that has no processor: the others fill the ring meanwhile.
        for (;; std::this_thread::yield()) {
          std::lock_guard guard(ring_lock);
          if (ring_is_full(world, a)) continue;
          post(world, a, add);
          break;
        }
        EXPECT_EQ(world.ring(a), 0);
        std::lock_guard guard(ring_lock);
        completed += world.poll(scq).size();
      }
    });
  for (auto& t : threads) t.join();
  completed += world.wait_for(scq, static_cast<u32>(threads_used * rounds - completed)).size();
  EXPECT_EQ(completed.load(), u64{threads_used * rounds});
  EXPECT_EQ(*reinterpret_cast<u64*>(theirs->data()), u64{threads_used * rounds});
}

TEST(Threads, BothEndsSendAtOnce) {
  World world;
  auto memory1 = world.memory(1, 65536);
  auto memory2 = world.memory(2, 65536);
  u32 keys[] = {world.key(*memory1, all_access), world.key(*memory2, all_access)};
  u64 addresses[] = {memory1->address(), memory2->address()};
  u32 scqs[] = {world.cq(), world.cq()}, rcqs[] = {world.cq(), world.cq()};
  u32 qps[] = {world.qp(1, QpType::rc, scqs[0], rcqs[0]), world.qp(2, QpType::rc, scqs[1], rcqs[1])};
  world.connect(qps[0], qps[1]);
  for (u32 qpn : qps) world.record(qpn).rnr_retry = world.record(qpn).requester.rnr_left = 7;
  constexpr u64 rounds = 300;
  auto side = [&](int me) {
    u64 sent = 0, received = 0, posted = 0, completed = 0;
    while (received < rounds || completed < rounds) {
      if (posted < rounds && posted < received + 8)
        post_receive(world, qps[me], posted++, {{addresses[me] + 4096, 64, keys[me]}});
      if (sent < rounds && sent < completed + 8) {
        Send send;
        send.wr_id = sent++;
        send.sges = {{addresses[me], 64, keys[me]}};
        post(world, qps[me], send);
        ASSERT_EQ(world.ring(qps[me]), 0);
      }
      for (auto& wc : world.poll(scqs[me])) {
        ASSERT_EQ(wc.status, 0U);
        ASSERT_EQ(wc.wr_id, completed++);
      }
      for (auto& wc : world.poll(rcqs[me])) ASSERT_EQ(wc.wr_id, received++);
    }
  };
  std::thread other(side, 1);
  side(0);
  other.join();
}

}  // namespace
}  // namespace softib::test
