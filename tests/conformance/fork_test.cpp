// Row 27: fork after registration. The forking process is one that the test starts, with and without ibv_fork_init.
#include "support.h"

namespace conformance {
namespace {

class R27Fork : public Conformance, public testing::WithParamInterface<bool> {
 protected:
  void SetUp() override {
    parent_ = own_agent(GetParam() ? "--fork-init" : "");
    pair_ = std::make_unique<Pair>(*parent_, b());
  }
  void TearDown() override {
    pair_.reset();
    EXPECT_EQ(parent_->reset(), 0);
    Conformance::TearDown();
  }

  const Buffer& memory() const { return pair_->a.buffer; }

  void sends(u32 seed) {
    must(parent_->fill(memory().address, 5000, seed), "fill");
    ASSERT_EQ(pair_->b.receive(1, 0, 8192).error, 0);
    ASSERT_EQ(pair_->a.post(send_wr(2, {memory().sge(0, 5000)})).error, 0);
    expect_wc(pair_->a.sent(), 2, IBV_WC_SUCCESS);
    expect_wc(pair_->b.received(), 1, IBV_WC_SUCCESS);
    EXPECT_EQ(b().mismatch(pair_->b.buffer.address, 5000, seed), -1) << "the peer did not see the parent's memory";
  }

  void receives(u32 seed) {
    b().fill(pair_->b.buffer.address, 5000, seed);
    ASSERT_EQ(pair_->a.receive(1, 8192, 8192).error, 0);
    ASSERT_EQ(pair_->b.post(send_wr(2, {pair_->b.buffer.sge(0, 5000)})).error, 0);
    expect_wc(pair_->b.sent(), 2, IBV_WC_SUCCESS);
    expect_wc(pair_->a.received(), 1, IBV_WC_SUCCESS);
    EXPECT_EQ(parent_->mismatch(memory().address + 8192, 5000, seed), -1) << "the parent did not see what came in";
  }

  void is_written(u32 seed) {
    b().fill(pair_->b.buffer.address, 5000, seed);
    ASSERT_EQ(pair_->b
                  .post(rdma_wr(2, IBV_WR_RDMA_WRITE, {pair_->b.buffer.sge(0, 5000)}, memory().address + 16384,
                                memory().rkey))
                  .error,
              0);
    expect_wc(pair_->b.sent(), 2, IBV_WC_SUCCESS);
    EXPECT_EQ(parent_->mismatch(memory().address + 16384, 5000, seed), -1);
  }

  std::unique_ptr<End> parent_;
  std::unique_ptr<Pair> pair_;
};

TEST_P(R27Fork, TrafficGoesOnWhileTheChildLives) {
  sends(1);
  ASSERT_EQ(parent_->fork_start(), 0);
  for (u32 seed = 2; seed < 6; ++seed) {
    sends(seed);
    receives(seed);
    is_written(seed);
  }
  EXPECT_EQ(parent_->fork_end(), 0);
  sends(7);
  receives(8);
}

// The child sees memory as it was at the fork, whatever the parent and its peers do afterwards.
TEST_P(R27Fork, ChildSeesItsOwnCopy) {
  must(parent_->set(memory().address, memory().size, 0x31), "set");
  ASSERT_EQ(parent_->fork_start(), 0);
  sends(1);
  receives(2);
  is_written(3);
  const Bytes seen = parent_->fork_peek(memory().address, 32768);
  if (seen.empty()) {
    // ibv_fork_init may put MADV_DONTFORK on registered pages: then the child has none at all, and dies of touching
    // them.
    EXPECT_TRUE(GetParam()) << "the child died";
    parent_->fork_end();
    return;
  }
  for (size_t i = 0; i < seen.size(); ++i) ASSERT_EQ(seen[i], 0x31) << "at " << i;
  EXPECT_EQ(parent_->fork_end(), 0);
}

// What the child writes stays with it.
TEST_P(R27Fork, ChildsWritesStayWithIt) {
  must(parent_->set(memory().address, memory().size, 0x31), "set");
  ASSERT_EQ(parent_->fork_start(), 0);
  const bool child_has_copy = parent_->fork_poke(memory().address, 0x99) == 0;
  EXPECT_TRUE(child_has_copy || GetParam()) << "the child died";
  for (u64 offset = 4096; child_has_copy && offset < 32768; offset += 4096) {
    ASSERT_EQ(parent_->fork_poke(memory().address + offset, 0x99), 0);
  }
  EXPECT_EQ(parent_->differs(memory().address, 32768, 0x31), -1);
  ASSERT_EQ(
      pair_->b.post(rdma_wr(2, IBV_WR_RDMA_READ, {pair_->b.buffer.sge(0, 32768)}, memory().address, memory().rkey))
          .error,
      0);
  expect_wc(pair_->b.sent(), 2, IBV_WC_SUCCESS);
  EXPECT_EQ(b().differs(pair_->b.buffer.address, 32768, 0x31), -1) << "a peer read what the child wrote";
  sends(4);
  const int status = parent_->fork_end();
  if (child_has_copy) EXPECT_EQ(status, 0);
  sends(5);
}

TEST_P(R27Fork, ChildCallsExec) {
  ASSERT_EQ(parent_->fork_start(), 0);
  sends(1);
  EXPECT_EQ(parent_->fork_exec(), 0);
  sends(2);
  receives(3);
  is_written(4);
  parent_->fork_end();
  sends(5);
}

// Registering goes on in the parent after a fork, also of the pages that were shared with the child.
TEST_P(R27Fork, RegisterAgainAfterTheFork) {
  ASSERT_EQ(parent_->fork_start(), 0);
  const MadeMr mr = parent_->reg_mr(pair_->a.pd, memory().address, memory().size, all_access);
  ASSERT_NE(mr.id, 0u) << mr.error;
  b().fill(pair_->b.buffer.address, 100, 9);
  ASSERT_EQ(
      pair_->b.post(rdma_wr(2, IBV_WR_RDMA_WRITE, {pair_->b.buffer.sge(0, 100)}, memory().address, mr.rkey)).error, 0);
  expect_wc(pair_->b.sent(), 2, IBV_WC_SUCCESS);
  EXPECT_EQ(parent_->mismatch(memory().address, 100, 9), -1);
  EXPECT_EQ(parent_->fork_end(), 0);
}

// A child that ends must not take the parent's objects with it.
TEST_P(R27Fork, ManyChildren) {
  for (u32 i = 0; i < 5; ++i) {
    ASSERT_EQ(parent_->fork_start(), 0);
    EXPECT_EQ(parent_->fork_end(), 0);
    sends(i);
    receives(i);
  }
}

INSTANTIATE_TEST_SUITE_P(Init, R27Fork, testing::Values(false, true),
                         [](const auto& test) { return test.param ? "ForkInit" : "Plain"; });

}  // namespace
}  // namespace conformance
