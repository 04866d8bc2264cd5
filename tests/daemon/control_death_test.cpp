// Processes that die at any moment.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "abi/rxe.h"
#include "control_fixture.h"
#include "hca/engine/ring.h"
#include "ipc/shared_lock.h"

namespace softib::daemon {
namespace {

using ipc::QpState;
using ipc::QpType;

class ControlDeath : public ControlTest {};

u64 blocks_of(int fd) {
  struct stat info {};
  return ::fstat(fd, &info) == 0 ? static_cast<u64>(info.st_blocks) : 0;
}

TEST_F(ControlDeath, NothingOfTheDeadIsHeld) {
  TestProcess survivor = start("host1");
  settle();
  u64 before = control_->arena().used_bytes();
  TestProcess process = start("host0");
  Connection c = make_qp(process);
  auto mr = call<ipc::RegMr>(process, {c.pd, 7, 4096, 4096, 4096, 4096, 8192});
  ASSERT_TRUE(mr);
  ASSERT_EQ(::pwrite(process.memory.get(), "x", 1, 1L << 40), 1);
  int memory = ::dup(process.memory.get());
  EXPECT_GT(blocks_of(memory), 0U);
  u32 death_epoch = segment().header.death_epoch;
  // The survivor looked up one of its keys a moment ago and is still copying.
  auto& lane = segment().processes[survivor.attached.slot].lanes[0];
  lane.sequence += 1;
  die(process);
  settle();
  EXPECT_GT(blocks_of(memory), 0U) << "not under the hands of those inside";
  lane.sequence += 1;
  EXPECT_GT(segment().header.death_epoch, death_epoch);
  EXPECT_EQ(segment().processes[process.attached.slot].state, ipc::ProcessState::dead);
  EXPECT_EQ(segment().qps[c.qpn].state, QpState::destroyed);
  EXPECT_EQ(segment().keys[mr->mr].key, 0U);
  settle();
  EXPECT_EQ(blocks_of(memory), 0U) << "its memory went back";
  ::close(memory);
  EXPECT_EQ(segment().processes[process.attached.slot].state, ipc::ProcessState::free);
  EXPECT_EQ(control_->arena().used_bytes(), before);
  EXPECT_FALSE(control_->has_deferred());
  EXPECT_TRUE(call<ipc::AllocPd>(survivor));
}

TEST_F(ControlDeath, ASharedContextOutlivesItsMaker) {
  TestProcess owner = start("host0");
  TestProcess other = attach("host0");
  other.context = owner.context;
  Connection c = make_qp(owner);
  auto mr = call<ipc::RegMr>(owner, {c.pd, 7, 4096, 4096, 4096, 0, 0});
  control_->disconnect(owner.peer);
  EXPECT_EQ(segment().qps[c.qpn].state, QpState::destroyed) << "nobody answers for it";
  EXPECT_EQ(segment().keys[mr->mr].key, 0U) << "that memory is gone";
  EXPECT_EQ(modify(other, c.qpn, attributes_for(QpType::rc, QpState::init)), EINVAL);
  EXPECT_EQ(error_of<ipc::QueryQp>(other, {c.qpn}), 0);
  EXPECT_EQ(error_of<ipc::DestroyQp>(other, {c.qpn}), 0);
  EXPECT_EQ(error_of<ipc::DeregMr>(other, {mr->mr}), 0);
  EXPECT_TRUE(call<ipc::RegMr>(other, {c.pd, 7, 4096, 4096, 4096, 0, 0}));
}

TEST_F(ControlDeath, ASlotIsReusedOnlyWhenNobodyLooksAtIt) {
  TestProcess survivor = start("host1");
  TestProcess process = start("host0");
  auto& lane = segment().processes[survivor.attached.slot].lanes[3];
  lane.sequence += 1;
  die(process);
  settle();
  EXPECT_TRUE(control_->has_deferred());
  EXPECT_EQ(segment().processes[process.attached.slot].state, ipc::ProcessState::dead);
  lane.sequence += 1;
  settle();
  EXPECT_FALSE(control_->has_deferred());
}

TEST_F(ControlDeath, SlotsComeBackWithAnotherGeneration) {
  std::map<u32, u32> generations;
  int reused = 0;
  for (int i = 0; i < 100; ++i) {
    TestProcess process = start("host0");
    u32 slot = process.attached.slot;
    if (generations.contains(slot)) {
      ++reused;
      EXPECT_NE(generations[slot], process.attached.generation);
    }
    generations[slot] = process.attached.generation;
    die(process);
    settle();
  }
  EXPECT_GT(reused, 50);
  EXPECT_LT(segment().header.process_limit, 20U);
}

TEST_F(ControlDeath, LocksAreLetGo) {
  TestProcess survivor = start("host1");
  Connection c = make_qp(survivor);
  TestProcess process = start("host0");
  u32 slot = process.attached.slot;
  ASSERT_TRUE(ipc::try_lock(segment().cqs[c.cq].lock, slot));
  ASSERT_TRUE(ipc::try_lock(segment().processes[survivor.attached.slot].agent.lock, slot));
  die(process);
  settle();
  EXPECT_EQ(segment().cqs[c.cq].lock.holder, 0U);
  EXPECT_EQ(segment().processes[survivor.attached.slot].agent.lock.holder, 0U);
}

// The sender dies between taking a receive and completing it; the receiver's CQ is armed.
TEST_F(ControlDeath, AHalfDoneReceiveIsFlushedAndReported) {
  TestProcess survivor = start("host1");
  Fd channel_fd;
  auto channel = call<ipc::CreateChannel>(survivor.peer, survivor.context, {}, {}, &channel_fd);
  ASSERT_TRUE(channel);
  u32 pd = make_pd(survivor);
  u32 cq = make_cq(survivor, 16, channel->channel);
  auto created = call<ipc::CreateQp>(survivor, qp_request(pd, cq, QpType::rc));
  ipc::Qp& target = qp(created->qpn);
  TestProcess process = start("host0");
  hca::Ring ring(segment(), target.rq_ring, target.rq_mask);
  ring.set_producer(2);
  ASSERT_TRUE(ipc::try_lock(target.responder.lock, process.attached.slot));
  target.responder.consumer = 1;
  target.responder.claimed_wr_id = 4711;
  target.responder.claimed = 1;
  ring.set_consumer(1);
  segment().cqs[cq].arm = ipc::Arm::next;
  die(process);
  EXPECT_EQ(target.responder.lock.holder, 0U);
  hca::Ring completions(segment(), segment().cqs[cq].ring, segment().cqs[cq].mask);
  ASSERT_EQ(completions.producer(), 1U);
  EXPECT_EQ(completions.at<ib_uverbs_wc>(0, 6)->wr_id, 4711U);
  EXPECT_EQ(completions.at<ib_uverbs_wc>(0, 6)->status, 5U);
  ipc::CompletionRecord record{};
  ASSERT_EQ(::read(channel_fd.get(), &record, sizeof record), static_cast<ssize_t>(sizeof record));
  EXPECT_EQ(record.cq, cq);
  EXPECT_EQ(record.user_handle, 0xc0U);
}

TEST_F(ControlDeath, RepairWaitsForAnotherHolderAndIsFinishedLater) {
  TestProcess survivor = start("host1");
  Connection c = make_qp(survivor);
  TestProcess process = start("host0");
  ipc::Qp& target = qp(c.qpn);
  hca::Ring ring(segment(), target.rq_ring, target.rq_mask);
  ring.set_producer(1);
  ASSERT_TRUE(ipc::try_lock(target.responder.lock, process.attached.slot));
  target.responder.consumer = 1;
  target.responder.claimed = 1;
  ring.set_consumer(1);
  ASSERT_TRUE(ipc::try_lock(segment().cqs[c.cq].lock, survivor.attached.slot));
  die(process);
  settle();
  EXPECT_TRUE(control_->has_deferred());
  EXPECT_NE(target.responder.lock.holder, 0U);
  ipc::unlock(segment().cqs[c.cq].lock);
  settle();
  EXPECT_FALSE(control_->has_deferred());
  EXPECT_EQ(target.responder.lock.holder, 0U);
}

TEST_F(ControlDeath, MemoryFilesOfTheLivingOnly) {
  TestProcess a = start("host0");
  TestProcess b = start("host1");
  Fd fd;
  ASSERT_TRUE(call<ipc::MemoryFd>(a.peer, 0, {b.attached.slot, b.attached.generation}, {}, &fd));
  struct stat given {};
  struct stat own {};
  ASSERT_EQ(::fstat(fd.get(), &given), 0);
  ASSERT_EQ(::fstat(b.memory.get(), &own), 0);
  EXPECT_EQ(given.st_ino, own.st_ino);
  auto stale = call<ipc::MemoryFd>(a.peer, 0, {b.attached.slot, b.attached.generation + 1});
  ASSERT_FALSE(stale);
  EXPECT_EQ(to_int(stale.error()), ESRCH);
  die(b);
  EXPECT_FALSE(call<ipc::MemoryFd>(a.peer, 0, {b.attached.slot, b.attached.generation}));
}

}  // namespace
}  // namespace softib::daemon
