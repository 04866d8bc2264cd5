// Rows 1 and 2: what may be registered.
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "support.h"

namespace conformance {
namespace {

constexpr u64 mib = 1 << 20;

class R01Memlock : public Conformance {
 protected:
  // A process of its own, not root, that may lock 4 MiB.
  void SetUp() override {
    agent_ = own_agent();
    agent_->info();
    must(agent_->restrict_memlock(4 * mib), "setrlimit");
    pd_ = agent_->alloc_pd().id;
  }
  void TearDown() override { EXPECT_EQ(agent_->reset(), 0); }

  MadeMr reg(u64 size) { return agent_->reg_mr(pd_, agent_->alloc_memory(size), size, all_access); }

  std::unique_ptr<End> agent_;
  Id pd_ = 0;
};

TEST_F(R01Memlock, OneRegistrationTooLarge) {
  const MadeMr mr = reg(8 * mib);
  EXPECT_EQ(mr.id, 0u);
  EXPECT_EQ(mr.error, ENOMEM);
}

TEST_F(R01Memlock, WithinTheLimit) { EXPECT_NE(reg(2 * mib).id, 0u); }

TEST_F(R01Memlock, TheSumCounts) {
  ASSERT_NE(reg(3 * mib).id, 0u);
  const MadeMr second = reg(2 * mib);
  EXPECT_EQ(second.id, 0u);
  EXPECT_EQ(second.error, ENOMEM);
}

TEST_F(R01Memlock, DeregistrationGivesBack) {
  for (int i = 0; i < 20; ++i) {
    const MadeMr mr = reg(3 * mib);
    ASSERT_NE(mr.id, 0u) << "round " << i << ": errno " << mr.error;
    ASSERT_EQ(agent_->dereg_mr(mr.id), 0);
  }
}

TEST_F(R01Memlock, ARefusedRegistrationTakesNothing) {
  for (int i = 0; i < 5; ++i) ASSERT_EQ(reg(8 * mib).error, ENOMEM);
  EXPECT_NE(reg(3 * mib).id, 0u);
}

class R02Access : public Conformance {
 protected:
  void SetUp() override {
    pd_ = a().alloc_pd().id;
    memory_ = a().alloc_memory(65536);
  }
  Id pd_ = 0;
  u64 memory_ = 0;
};

// All combinations of the five permissions: refused exactly where remote writing or atomics come without local writing.
TEST_F(R02Access, EveryCombination) {
  Differences differences;
  for (u32 access = 0; access < 32; ++access) {  // LOCAL_WRITE 1, REMOTE_WRITE 2, REMOTE_READ 4, ATOMIC 8, MW_BIND 16
    const bool remote_change = access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC);
    const bool refused = remote_change && !(access & IBV_ACCESS_LOCAL_WRITE);
    const MadeMr mr = a().reg_mr(pd_, memory_, 65536, access);
    differences.checked();
    if ((mr.id == 0) != refused)
      differences.add("access " + std::to_string(access) + " gave errno " + std::to_string(mr.error));
    if (mr.id == 0 && mr.error != EINVAL) differences.add("access " + std::to_string(access) + ": errno is not EINVAL");
    if (mr.id != 0) EXPECT_EQ(a().dereg_mr(mr.id), 0);
  }
}

TEST_F(R02Access, WithAnIovaToo) {
  const MadeMr mr = a().reg_mr_iova(pd_, memory_, 4096, 0x10000, IBV_ACCESS_REMOTE_WRITE);
  EXPECT_EQ(mr.id, 0u);
  EXPECT_EQ(mr.error, EINVAL);
}

TEST_F(R02Access, UnknownAccessBit) {
  const MadeMr mr = a().reg_mr(pd_, memory_, 4096, IBV_ACCESS_LOCAL_WRITE | 1u << 15);
  EXPECT_EQ(mr.id, 0u);
  EXPECT_TRUE(mr.error == EINVAL || mr.error == EOPNOTSUPP) << mr.error;
}

TEST_F(R02Access, MemoryThatIsNotThere) {
  const u64 hole = 0x100000;  // far below where a program lies, so that no library maps anything there meanwhile
  const MadeMr mr = a().reg_mr(pd_, hole, 4096, IBV_ACCESS_LOCAL_WRITE);
  EXPECT_EQ(mr.id, 0u);
  EXPECT_TRUE(mr.error == EFAULT || mr.error == ENOMEM) << mr.error;
}

TEST_F(R02Access, HalfOfItIsNotThere) {
  const u64 start = a().alloc_memory(8192);
  munmap(reinterpret_cast<void*>(start + 4096), 4096);
  const MadeMr mr = a().reg_mr(pd_, start, 8192, IBV_ACCESS_LOCAL_WRITE);
  EXPECT_EQ(mr.id, 0u);
  EXPECT_TRUE(mr.error == EFAULT || mr.error == ENOMEM) << mr.error;
}

TEST_F(R02Access, ReadOnlyMemoryForWriting) {
  void* page = mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  const MadeMr write = a().reg_mr(pd_, reinterpret_cast<u64>(page), 4096, IBV_ACCESS_LOCAL_WRITE);
  EXPECT_EQ(write.id, 0u);
  EXPECT_EQ(write.error, EFAULT);
  munmap(page, 4096);
}

TEST_F(R02Access, AddressThatWraps) {
  const MadeMr mr = a().reg_mr(pd_, ~0ULL - 4095, 8192, IBV_ACCESS_LOCAL_WRITE);
  EXPECT_EQ(mr.id, 0u);
  EXPECT_TRUE(mr.error == EINVAL || mr.error == EFAULT || mr.error == ENOMEM) << mr.error;
}

TEST_F(R02Access, KeysDifferAndAreNotReusedAtOnce) {
  const MadeMr first = a().reg_mr(pd_, memory_, 4096, all_access);
  const MadeMr second = a().reg_mr(pd_, memory_, 4096, all_access);
  ASSERT_NE(first.id, 0u);
  ASSERT_NE(second.id, 0u);
  EXPECT_NE(first.rkey, second.rkey);
  ASSERT_EQ(a().dereg_mr(first.id), 0);
  const MadeMr third = a().reg_mr(pd_, memory_, 4096, all_access);
  EXPECT_NE(third.rkey, first.rkey);
  EXPECT_NE(third.rkey, second.rkey);
}

// An RDMA address is an offset from the iova, whatever the memory's own address.
TEST_F(R02Access, IovaIsTheRemoteAddress) {
  Pair pair(a(), b());
  const u64 memory = b().alloc_memory(8192);
  const u64 iova = 0x7000;
  const MadeMr mr = b().reg_mr_iova(pair.b.pd, memory, 8192, iova, all_access);
  if (mr.id == 0 && (mr.error == EOPNOTSUPP || mr.error == ENOSYS))
    GTEST_SKIP() << "the provider has no iova registration";
  ASSERT_NE(mr.id, 0u) << mr.error;
  a().fill(pair.a.buffer.address, 100, 3);
  ASSERT_EQ(pair.a.post(rdma_wr(1, IBV_WR_RDMA_WRITE, {pair.a.buffer.sge(0, 100)}, iova + 4000, mr.rkey)).error, 0);
  expect_wc(pair.a.sent(), 1, IBV_WC_SUCCESS);
  EXPECT_EQ(b().mismatch(memory + 4000, 100, 3), -1);
}

}  // namespace
}  // namespace conformance
