// Row 10: atomic operations.
#include <cstring>

#include "support.h"

namespace conformance {
namespace {

class R10Atomics : public Conformance {
 protected:
  static u64 word(End& end, u64 address) {
    const Bytes bytes = end.read_bytes(address, 8);
    u64 value = 0;
    std::memcpy(&value, bytes.data(), 8);
    return value;
  }
  static void set_word(End& end, u64 address, u64 value) {
    Bytes bytes(8);
    std::memcpy(bytes.data(), &value, 8);
    end.write_bytes(address, bytes);
  }

  // Carries out one atomic and gives the value it fetched.
  u64 fetched(const Pair& pair, ibv_wr_opcode opcode, u64 compare_add, u64 swap, ibv_wc_opcode wanted) {
    EXPECT_EQ(pair.a
                  .post(atomic_wr(1, opcode, pair.a.buffer.sge(0, 8), pair.b.buffer.address, pair.b.buffer.rkey,
                                  compare_add, swap))
                  .error,
              0);
    const auto wcs = pair.a.sent();
    expect_wc(wcs, 1, IBV_WC_SUCCESS);
    if (!wcs.empty()) EXPECT_EQ(wcs[0].opcode, wanted);
    return word(a(), pair.a.buffer.address);
  }
};

TEST_F(R10Atomics, FetchAdd) {
  Pair pair(a(), b());
  set_word(b(), pair.b.buffer.address, 40);
  EXPECT_EQ(fetched(pair, IBV_WR_ATOMIC_FETCH_AND_ADD, 2, 0, IBV_WC_FETCH_ADD), 40u);
  EXPECT_EQ(word(b(), pair.b.buffer.address), 42u);
}

TEST_F(R10Atomics, FetchAddWraps) {
  Pair pair(a(), b());
  set_word(b(), pair.b.buffer.address, ~0ULL);
  EXPECT_EQ(fetched(pair, IBV_WR_ATOMIC_FETCH_AND_ADD, 3, 0, IBV_WC_FETCH_ADD), ~0ULL);
  EXPECT_EQ(word(b(), pair.b.buffer.address), 2u);
}

TEST_F(R10Atomics, CompareSwapThatMatches) {
  Pair pair(a(), b());
  set_word(b(), pair.b.buffer.address, 0x1122334455667788);
  EXPECT_EQ(fetched(pair, IBV_WR_ATOMIC_CMP_AND_SWP, 0x1122334455667788, 77, IBV_WC_COMP_SWAP), 0x1122334455667788u);
  EXPECT_EQ(word(b(), pair.b.buffer.address), 77u);
}

TEST_F(R10Atomics, CompareSwapThatDoesNot) {
  Pair pair(a(), b());
  set_word(b(), pair.b.buffer.address, 5);
  EXPECT_EQ(fetched(pair, IBV_WR_ATOMIC_CMP_AND_SWP, 6, 77, IBV_WC_COMP_SWAP), 5u);
  EXPECT_EQ(word(b(), pair.b.buffer.address), 5u);
}

TEST_F(R10Atomics, NeighboursAreUntouched) {
  Pair pair(a(), b());
  b().set(pair.b.buffer.address, 4096, 0xcc);
  ASSERT_EQ(pair.a
                .post(atomic_wr(1, IBV_WR_ATOMIC_FETCH_AND_ADD, pair.a.buffer.sge(0, 8), pair.b.buffer.address + 64,
                                pair.b.buffer.rkey, 1))
                .error,
            0);
  expect_wc(pair.a.sent(), 1, IBV_WC_SUCCESS);
  EXPECT_EQ(b().differs(pair.b.buffer.address, 64, 0xcc), -1);
  EXPECT_EQ(b().differs(pair.b.buffer.address + 72, 4000, 0xcc), -1);
}

// The last word of a page and the first of the next.
TEST_F(R10Atomics, AtPageEdges) {
  Pair pair(a(), b());
  for (const u64 offset : {4088u, 4096u}) {
    set_word(b(), pair.b.buffer.address + offset, 1);
    ASSERT_EQ(pair.a
                  .post(atomic_wr(1, IBV_WR_ATOMIC_FETCH_AND_ADD, pair.a.buffer.sge(0, 8),
                                  pair.b.buffer.address + offset, pair.b.buffer.rkey, 1))
                  .error,
              0);
    expect_wc(pair.a.sent(), 1, IBV_WC_SUCCESS);
    EXPECT_EQ(word(b(), pair.b.buffer.address + offset), 2u);
  }
}

// Where the result goes needs no alignment and may be split.
TEST_F(R10Atomics, ResultUnalignedAndSplit) {
  Pair pair(a(), b());
  const u64 value = 0x0807060504030201;
  set_word(b(), pair.b.buffer.address, value);
  Send send =
      atomic_wr(1, IBV_WR_ATOMIC_FETCH_AND_ADD, pair.a.buffer.sge(0, 8), pair.b.buffer.address, pair.b.buffer.rkey, 0);
  send.sges = {pair.a.buffer.sge(101, 3), pair.a.buffer.sge(205, 5)};
  ASSERT_EQ(pair.a.post(send).error, 0);
  expect_wc(pair.a.sent(), 1, IBV_WC_SUCCESS);
  EXPECT_EQ(a().read_bytes(pair.a.buffer.address + 101, 3), (Bytes{1, 2, 3}));
  EXPECT_EQ(a().read_bytes(pair.a.buffer.address + 205, 5), (Bytes{4, 5, 6, 7, 8}));
}

struct Misaligned {
  ibv_wr_opcode opcode;
  bool builder;
};

class R10Misaligned : public Conformance, public testing::WithParamInterface<Misaligned> {};

TEST_P(R10Misaligned, EveryOffset) {
  for (u64 offset = 1; offset < 8; ++offset) {
    SCOPED_TRACE("offset " + std::to_string(offset));
    Spec spec;
    if (GetParam().builder) spec.send_ops = IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD;
    Pair pair(a(), b(), spec);
    b().set(pair.b.buffer.address, 64, 0xcc);
    const Send send = atomic_wr(1, GetParam().opcode, pair.a.buffer.sge(0, 8), pair.b.buffer.address + offset,
                                pair.b.buffer.rkey, 1, 2);
    const Posted posted = GetParam().builder ? a().post_builder(pair.a.qp, {send}) : pair.a.post(send);
    ASSERT_EQ(posted.error, 0);
    expect_wc(pair.a.sent(), 1, IBV_WC_REM_INV_REQ_ERR);
    EXPECT_EQ(pair.a.state_becomes(IBV_QPS_ERR), IBV_QPS_ERR);
    EXPECT_EQ(pair.b.state_becomes(IBV_QPS_ERR), IBV_QPS_ERR);
    EXPECT_EQ(b().differs(pair.b.buffer.address, 64, 0xcc), -1);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Ways, R10Misaligned,
    testing::Values(Misaligned{IBV_WR_ATOMIC_FETCH_AND_ADD, false}, Misaligned{IBV_WR_ATOMIC_CMP_AND_SWP, false},
                    Misaligned{IBV_WR_ATOMIC_FETCH_AND_ADD, true}, Misaligned{IBV_WR_ATOMIC_CMP_AND_SWP, true}),
    [](const auto& test) { return name_of(test.param.opcode) + (test.param.builder ? "Builder" : "PostSend"); });

// Many QPs of both ends change one word of b at the same time: nothing is lost, nothing is seen twice.
void hammer_one_word(bool compare_swap) {
  const u32 count = options().slow > 1 ? 50 : 2000;
  const int pairs = 2;
  std::vector<Pair> connections;
  for (int i = 0; i < pairs; ++i) connections.emplace_back(end_a(), end_b());
  for (int i = 0; i < pairs; ++i) connections.emplace_back(end_b(), end_b());  // the target's own adapter
  const Buffer& target = connections[0].b.buffer;
  const Id pd = connections[0].b.pd;
  for (Pair& pair : connections) {
    if (pair.b.pd == pd) continue;
    // Each connection reaches the word through a key of its own PD.
    const MadeMr mr = end_b().reg_mr(pair.b.pd, target.address, 4096, all_access);
    must(mr.error, "ibv_reg_mr");
    pair.b.buffer.rkey = mr.rkey;
  }
  std::vector<Hammer> jobs_a;
  std::vector<Hammer> jobs_b;
  for (Pair& pair : connections) {
    const Hammer job{pair.a.qp,          pair.a.send_cq, pair.a.buffer.address, pair.a.buffer.lkey, target.address,
                     pair.b.buffer.rkey, count,          compare_swap};
    (pair.a.end == &end_a() ? jobs_a : jobs_b).push_back(job);
  }
  alarm(static_cast<unsigned>(300 * options().slow));
  end_b().hammer(jobs_b);
  end_a().hammer(jobs_a);
  auto results = end_a().hammer_join();
  for (const HammerResult& result : end_b().hammer_join()) results.push_back(result);
  for (const HammerResult& result : results) {
    EXPECT_EQ(result.status, static_cast<u32>(IBV_WC_SUCCESS));
    EXPECT_EQ(result.done, count);
    EXPECT_EQ(result.disorder, 0u) << "a later atomic fetched an older value";
  }
  u64 sum = 0;
  const Bytes bytes = end_b().read_bytes(target.address, 8);
  std::memcpy(&sum, bytes.data(), 8);
  EXPECT_EQ(sum, u64{count} * results.size());
}

TEST_F(R10Atomics, FetchAddFromEverywhere) { hammer_one_word(false); }
TEST_F(R10Atomics, CompareSwapFromEverywhere) { hammer_one_word(true); }

// Requests of one QP are carried out in their order.
TEST_F(R10Atomics, ManyOutstanding) {
  Pair pair(a(), b());
  set_word(b(), pair.b.buffer.address, 0);
  std::vector<Send> list;
  for (u64 i = 0; i < 16; ++i) {
    list.push_back(atomic_wr(i, IBV_WR_ATOMIC_FETCH_AND_ADD, pair.a.buffer.sge(i * 8, 8), pair.b.buffer.address,
                             pair.b.buffer.rkey, 1));
  }
  ASSERT_EQ(pair.a.post(list).error, 0);
  ASSERT_EQ(pair.a.sent(16).size(), 16u);
  for (u64 i = 0; i < 16; ++i) EXPECT_EQ(word(a(), pair.a.buffer.address + i * 8), i);
}

}  // namespace
}  // namespace conformance
