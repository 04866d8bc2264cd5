// Memory regions and windows: rights, pins, and that every pin is given back exactly once.
#include <gtest/gtest.h>

#include "hca/rules/bits.h"
#include "world.h"

namespace softib::kernel::testing {
namespace {

using hca::AccessBits;

constexpr u32 bits(AccessBits access) { return static_cast<u32>(access); }
constexpr u64 address = 0x7000'0000;

class Memory : public ::testing::Test {
 protected:
  void SetUp() override { world.pd = world.make_pd(); }
  void TearDown() override {
    world.file.reset();
    EXPECT_TRUE(memory().shares.empty());
    EXPECT_TRUE(memory().charges.empty());
    EXPECT_TRUE(memory().balanced);
  }
  FakeProcessMemory& memory() { return world.daemon.fake_memory; }
  ssize_t reg(u64 at, u64 length, u32 access) { return world.reg_mr(at, length, access).write(*world.file); }
  ssize_t dereg(u32 mr) {
    return world.command<ib_uverbs_dereg_mr>(IB_USER_VERBS_CMD_DEREG_MR, {mr}).write(*world.file);
  }
  static constexpr ssize_t reg_size = sizeof(ib_uverbs_cmd_hdr) + sizeof(ib_uverbs_reg_mr);
  World world;
};

TEST_F(Memory, RegisterAndDeregister) {
  auto call = world.reg_mr(address + 100, 5000, bits(AccessBits::local_write));
  ASSERT_EQ(call.write(*world.file), reg_size);
  EXPECT_EQ(call.response().lkey >> 8, call.response().mr_handle);
  EXPECT_EQ(memory().shares.size(), 1U);
  EXPECT_EQ(memory().charges.size(), 1U);
  EXPECT_TRUE(memory().last_writable);
  EXPECT_EQ(world.daemon.last_region.iova, address + 100);
  EXPECT_EQ(world.daemon.last_region.shared_end, address + 5100);
  EXPECT_EQ(dereg(call.response().mr_handle), 12);
  EXPECT_TRUE(memory().shares.empty());
  EXPECT_EQ(world.daemon.fake_engine.notes.back(), "quiescent");
  EXPECT_EQ(dereg(call.response().mr_handle), -ENOENT);
}

TEST_F(Memory, ReadOnlyRegionAsksForNoWritablePages) {
  ASSERT_EQ(reg(address, 4096, bits(AccessBits::remote_read)), reg_size);
  EXPECT_FALSE(memory().last_writable);
}

TEST_F(Memory, RightsThatContradict) {
  for (AccessBits access :
       {AccessBits::remote_write, AccessBits::remote_atomic, AccessBits::remote_atomic | AccessBits::remote_read}) {
    EXPECT_EQ(reg(address, 4096, bits(access)), -EINVAL);
  }
  EXPECT_EQ(reg(address, 4096, 1U << 15), -EINVAL);
  EXPECT_EQ(reg(address, 4096, bits(AccessBits::local_write) | 1U << 20), reg_size);  // relaxed ordering
}

TEST_F(Memory, Ranges) {
  EXPECT_EQ(reg(address, 0, 1), -EINVAL);
  EXPECT_EQ(reg(~0ULL - 4095, 8192, 1), -EINVAL);
  EXPECT_EQ(reg(0, ~0ULL, 1), reg_size - 0 * 1);  // not on demand: the range itself is sound, pages decide
  ib_uverbs_reg_mr skewed{};
  skewed.start = address;
  skewed.hca_va = address + 1;
  skewed.length = 4096;
  skewed.pd_handle = world.pd;
  auto call = world.command<ib_uverbs_reg_mr, ib_uverbs_reg_mr_resp>(IB_USER_VERBS_CMD_REG_MR, skewed);
  EXPECT_EQ(call.write(*world.file), -EINVAL);
}

TEST_F(Memory, OverTheLockLimit) {
  memory().memlock_limit = 4096;
  EXPECT_EQ(reg(address, 8192, 1), -ENOMEM);
  EXPECT_EQ(world.daemon.count(ipc::Op::reg_mr), 0U);
}

TEST_F(Memory, UnmappedPages) {
  memory().share_error = EFAULT;
  EXPECT_EQ(reg(address, 8192, 1), -EFAULT);
  EXPECT_TRUE(memory().charges.empty());
}

TEST_F(Memory, RefusedByTheDaemon) {
  world.pd = 77;  // no such PD
  EXPECT_EQ(reg(address, 8192, 1), -EINVAL);
  EXPECT_TRUE(memory().shares.empty());
  EXPECT_TRUE(memory().charges.empty());
}

TEST_F(Memory, UnwritableAnswerUndoesEverything) {
  auto call = world.reg_mr(address, 8192, 1);
  world.window.read_only_from = Window::base;
  EXPECT_EQ(call.write(*world.file), -EFAULT);
  EXPECT_EQ(world.daemon.count(ipc::Op::dereg_mr), 1U);
  EXPECT_TRUE(memory().shares.empty());
}

TEST_F(Memory, OnDemandHoldsNothing) {
  ASSERT_EQ(reg(address, 8192, bits(AccessBits::on_demand | AccessBits::local_write)), reg_size);
  EXPECT_TRUE(memory().shares.empty());
  EXPECT_TRUE(memory().charges.empty());
  EXPECT_EQ(world.daemon.last_region.shared_begin, world.daemon.last_region.shared_end);
  ASSERT_EQ(reg(0, ~0ULL, bits(AccessBits::on_demand | AccessBits::local_write)), reg_size);  // implicit
  EXPECT_EQ(world.daemon.last_region.length, ~0ULL);
}

TEST_F(Memory, ZeroBasedCountsFromTheFirstByte) {
  ASSERT_EQ(reg(address + 8, 100, bits(AccessBits::zero_based)), reg_size);
  EXPECT_EQ(world.daemon.last_region.iova, 0U);
  EXPECT_EQ(world.daemon.last_region.address, address + 8);
}

TEST_F(Memory, RefusedDeregistrationKeepsThePages) {
  u32 mr = world.make_mr(address, 8192, 1);
  world.daemon.failures[ipc::Op::dereg_mr] = EBUSY;
  EXPECT_EQ(dereg(mr), -EBUSY);
  EXPECT_EQ(memory().shares.size(), 1U);
  world.daemon.failures.clear();
  EXPECT_EQ(dereg(mr), 12);
}

TEST_F(Memory, LastCloseGivesThePagesBack) {
  world.make_mr(address, 8192, 1);
  world.make_mr(address, 4096, 1);
  world.file.reset();
  EXPECT_TRUE(memory().shares.empty());
  EXPECT_EQ(world.daemon.fake_engine.notes.back(), "quiescent");
}

TEST_F(Memory, ForkedChildGivesNothingBack) {
  world.make_mr(address, 8192, 1);
  world.file->abandon();
  world.file.reset();
  EXPECT_EQ(memory().shares.size(), 1U);
  memory().shares.clear();
  memory().charges.clear();
}

// Another process of the same context ends our region; its id then comes back as a new region of ours.
TEST_F(Memory, RegionEndedByAnotherProcess) {
  u32 mr = world.make_mr(address, 8192, 1);
  Region stale{address, 8192, true};
  (void)world.file->regions().take(mr);
  u32 next = mr + 1;
  world.file->regions().put(next, stale);
  EXPECT_EQ(world.make_mr(address + 0x1'0000, 4096, 1), next);
  EXPECT_EQ(memory().shares.size(), 1U);  // the stale one's pages are given back
}

TEST_F(Memory, RegionOfAnotherProcess) {
  u32 mr = world.make_mr(address, 8192, 1);
  auto region = world.file->regions().take(mr);  // as if registered elsewhere
  EXPECT_EQ(dereg(mr), 12);
  EXPECT_EQ(memory().shares.size(), 1U);
  memory().unshare(region->address, region->length);
  memory().uncharge(region->address, region->length);
}

class Rereg : public Memory {
 protected:
  void SetUp() override {
    Memory::SetUp();
    mr = world.make_mr(address, 8192, bits(AccessBits::remote_read));
    request.mr_handle = mr;
    request.pd_handle = world.pd;
  }
  ssize_t run() {
    return world.command<ib_uverbs_rereg_mr, ib_uverbs_rereg_mr_resp>(IB_USER_VERBS_CMD_REREG_MR, request)
        .write(*world.file);
  }
  static constexpr ssize_t good = sizeof(ib_uverbs_cmd_hdr) + sizeof(ib_uverbs_rereg_mr);
  u32 mr = 0;
  ib_uverbs_rereg_mr request{};
};

TEST_F(Rereg, Flags) {
  EXPECT_EQ(run(), -EINVAL);
  request.flags = 8;
  EXPECT_EQ(run(), -EOPNOTSUPP);
  request.flags = 4;
  request.access_flags = bits(AccessBits::remote_write);
  EXPECT_EQ(run(), -EINVAL);
  request.mr_handle = 99;
  request.access_flags = 1;
  EXPECT_EQ(run(), -ENOENT);
}

TEST_F(Rereg, AnotherRange) {
  request.flags = 1;
  request.start = request.hca_va = address + 0x10'0000;
  request.length = 4096;
  ASSERT_EQ(run(), good);
  ASSERT_EQ(memory().shares.size(), 1U);
  EXPECT_EQ(memory().shares.begin()->first, (std::pair<u64, u64>{address + 0x10'0000, 4096}));
  EXPECT_EQ(world.daemon.last_rereg.to.iova, address + 0x10'0000);
}

TEST_F(Rereg, RefusedKeepsTheOldRange) {
  request.flags = 1;
  request.start = request.hca_va = address + 0x10'0000;
  request.length = 4096;
  world.daemon.failures[ipc::Op::rereg_mr] = EBUSY;
  EXPECT_EQ(run(), -EBUSY);
  ASSERT_EQ(memory().shares.size(), 1U);
  EXPECT_EQ(memory().shares.begin()->first, (std::pair<u64, u64>{address, 8192}));
}

TEST_F(Rereg, GainingTheRightToWriteLooksAtThePagesAgain) {
  request.flags = 4;
  request.access_flags = bits(AccessBits::local_write);
  memory().share_error = EFAULT;  // read-only pages
  EXPECT_EQ(run(), -EFAULT);
  memory().share_error = 0;
  ASSERT_EQ(run(), good);
  EXPECT_TRUE(memory().last_writable);
  EXPECT_EQ(memory().shares.size(), 1U);
}

TEST_F(Rereg, OtherChangesLeaveThePagesAlone) {
  memory().share_error = EFAULT;
  request.flags = 2;
  EXPECT_EQ(run(), good);
  request.flags = 4;
  request.access_flags = 0;
  EXPECT_EQ(run(), good);
}

TEST_F(Rereg, OnDemandLetsThePagesGo) {
  request.flags = 4;
  request.access_flags = bits(AccessBits::on_demand);
  ASSERT_EQ(run(), good);
  EXPECT_TRUE(memory().shares.empty());
}

TEST_F(Memory, QueryRegion) {
  u32 mr = world.make_mr(address, 8192, 1);
  IoctlCall call(world.window, UVERBS_OBJECT_MR, UVERBS_METHOD_QUERY_MR);
  call.handle(UVERBS_ATTR_QUERY_MR_HANDLE, mr);
  call.out(UVERBS_ATTR_QUERY_MR_RESP_LKEY, 4).out(UVERBS_ATTR_QUERY_MR_RESP_RKEY, 4);
  call.out(UVERBS_ATTR_QUERY_MR_RESP_LENGTH, 8).out(UVERBS_ATTR_QUERY_MR_RESP_IOVA, 8);
  ASSERT_EQ(call.run(*world.file), 0);
  EXPECT_EQ(call.answer<u32>(UVERBS_ATTR_QUERY_MR_RESP_LKEY) >> 8, mr);
  EXPECT_EQ(call.answer<u64>(UVERBS_ATTR_QUERY_MR_RESP_LENGTH), 8192U);
  EXPECT_EQ(call.answer<u64>(UVERBS_ATTR_QUERY_MR_RESP_IOVA), address);
}

class Advise : public Memory {
 protected:
  void SetUp() override {
    Memory::SetUp();
    auto call = world.reg_mr(address, 8192, 0);
    ASSERT_EQ(call.write(*world.file), reg_size);
    entry = {address, 8192, call.response().lkey};
  }
  int run(u64 advice, u64 flags = 0) {
    IoctlCall call(world.window, UVERBS_OBJECT_MR, UVERBS_METHOD_ADVISE_MR);
    call.handle(UVERBS_ATTR_ADVISE_MR_PD_HANDLE, world.pd).constant(UVERBS_ATTR_ADVISE_MR_ADVICE, advice);
    call.constant(UVERBS_ATTR_ADVISE_MR_FLAGS, flags).in(UVERBS_ATTR_ADVISE_MR_SGE_LIST, entry);
    return call.run(*world.file);
  }
  ib_uverbs_sge entry{};
};

TEST_F(Advise, Prefetch) {
  EXPECT_EQ(run(IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH, IB_UVERBS_ADVISE_MR_FLAG_FLUSH), 0);
  ASSERT_EQ(world.window.prefetched.size(), 1U);
  EXPECT_EQ(world.window.prefetched[0].address, address);
  EXPECT_EQ(run(IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT), 0);
  EXPECT_EQ(world.window.prefetched.size(), 1U);
}

TEST_F(Advise, WhatIsRefused) {
  EXPECT_EQ(run(9), -EOPNOTSUPP);
  EXPECT_EQ(run(0, 2), -EINVAL);
  EXPECT_EQ(run(IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_WRITE), -EFAULT);  // a read-only region
  ib_uverbs_sge good = entry;
  for (ib_uverbs_sge bad : {ib_uverbs_sge{address, 8193, good.lkey}, ib_uverbs_sge{address - 1, 1, good.lkey},
                            ib_uverbs_sge{address + 8192, 1, good.lkey}, ib_uverbs_sge{~0ULL, 1, good.lkey},
                            ib_uverbs_sge{address, 1, good.lkey + 1}, ib_uverbs_sge{address, 1, 0xffff'ffff}}) {
    entry = bad;
    EXPECT_EQ(run(0), -EFAULT) << bad.addr << " " << bad.length << " " << bad.lkey;
  }
}

TEST_F(Memory, Windows) {
  for (u8 type : {u8{1}, u8{2}}) {
    ib_uverbs_alloc_mw request{};
    request.pd_handle = world.pd;
    request.mw_type = type;
    auto call = world.command<ib_uverbs_alloc_mw, ib_uverbs_alloc_mw_resp>(IB_USER_VERBS_CMD_ALLOC_MW, request);
    ASSERT_EQ(call.invoke(*world.file), 0);
    IoctlCall destroy(world.window, UVERBS_OBJECT_MW, UVERBS_METHOD_MW_DESTROY);
    destroy.handle(UVERBS_ATTR_DESTROY_MW_HANDLE, call.response().mw_handle);
    EXPECT_EQ(destroy.run(*world.file), 0);
    EXPECT_EQ(destroy.run(*world.file), -ENOENT);
  }
  ib_uverbs_alloc_mw unknown{};
  unknown.pd_handle = world.pd;
  unknown.mw_type = 3;
  auto call = world.command<ib_uverbs_alloc_mw, ib_uverbs_alloc_mw_resp>(IB_USER_VERBS_CMD_ALLOC_MW, unknown);
  EXPECT_EQ(call.invoke(*world.file), -EINVAL);
}

TEST_F(Memory, WindowHandleIsNoRegionHandle) {
  u32 mw = world.make_mw();
  IoctlCall call(world.window, UVERBS_OBJECT_MR, UVERBS_METHOD_MR_DESTROY);
  call.handle(UVERBS_ATTR_DESTROY_MR_HANDLE, mw);
  EXPECT_EQ(call.run(*world.file), -ENOENT);
}

TEST_F(Memory, ProtectionDomains) {
  IoctlCall destroy(world.window, UVERBS_OBJECT_PD, UVERBS_METHOD_PD_DESTROY);
  destroy.handle(UVERBS_ATTR_DESTROY_PD_HANDLE, world.pd);
  world.daemon.failures[ipc::Op::dealloc_pd] = EBUSY;
  EXPECT_EQ(destroy.run(*world.file), -EBUSY);
  world.daemon.failures.clear();
  EXPECT_EQ(destroy.run(*world.file), 0);
  EXPECT_EQ(destroy.run(*world.file), -ENOENT);
}

TEST_F(Memory, DmaBufIsAbsent) {
  IoctlCall call(world.window, UVERBS_OBJECT_MR, UVERBS_METHOD_REG_DMABUF_MR);
  call.handle(UVERBS_ATTR_REG_DMABUF_MR_HANDLE, 0).handle(UVERBS_ATTR_REG_DMABUF_MR_PD_HANDLE, world.pd);
  call.constant(UVERBS_ATTR_REG_DMABUF_MR_OFFSET, 0).constant(UVERBS_ATTR_REG_DMABUF_MR_LENGTH, 0);
  call.constant(UVERBS_ATTR_REG_DMABUF_MR_IOVA, 0).data(UVERBS_ATTR_REG_DMABUF_MR_FD, 0, 4);
  call.constant(UVERBS_ATTR_REG_DMABUF_MR_ACCESS_FLAGS, 0);
  call.out(UVERBS_ATTR_REG_DMABUF_MR_RESP_LKEY, 4).out(UVERBS_ATTR_REG_DMABUF_MR_RESP_RKEY, 4);
  EXPECT_EQ(call.run(*world.file), -EOPNOTSUPP);
}

}  // namespace
}  // namespace softib::kernel::testing
