// Row 12: every size, alignment and split arrives intact.
#include "support.h"

namespace conformance {
namespace {

constexpr u64 kib = 1024;
constexpr u64 guard = 64;  // bytes on both sides of a target that must stay as they were

struct Shape {
  u64 offset_from, offset_to;
  u32 parts_from, parts_to;
};

const Shape shapes[] = {{0, 0, 1, 1},  {1, 0, 1, 1},    {0, 1, 1, 1},   {7, 5, 2, 1},
                        {3, 11, 3, 2}, {4095, 1, 4, 4}, {8, 4093, 1, 3}};

// Cuts a range into `parts` uneven pieces; with room for it, one of them is empty.
std::vector<ibv_sge> split(const Buffer& buffer, u64 offset, u64 size, u32 parts) {
  std::vector<ibv_sge> sges;
  u64 left = size;
  for (u32 i = 0; i < parts; ++i) {
    const bool last = i + 1 == parts;
    const u64 piece = last ? left : i == 1 ? 0 : left / 3;
    sges.push_back(buffer.sge(offset + size - left, piece));
    left -= piece;
  }
  return sges;
}

class R12Data : public Conformance {
 protected:
  // One message; the result is checked byte by byte, and so are the guards.
  void transfer(const Pair& pair, ibv_wr_opcode opcode, u64 size, const Shape& shape, u32 seed) {
    const bool read = opcode == IBV_WR_RDMA_READ;
    const bool into_receive = opcode == IBV_WR_SEND;
    const Node& from = read ? pair.b : pair.a;
    const Node& to = read ? pair.a : pair.b;
    const u64 source = guard + shape.offset_from;
    const u64 target = guard + shape.offset_to;
    from.end->fill(from.buffer.address + source, size, seed);
    to.end->set(to.buffer.address + target - guard, size + 2 * guard, 0xcc);
    const bool takes_receive = into_receive || opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
    if (into_receive)
      ASSERT_EQ(pair.b.receive({{5, split(pair.b.buffer, target, size, shape.parts_to)}}).error, 0);
    else if (takes_receive)
      ASSERT_EQ(pair.b.receive(std::vector<Recv>{{5, {}}}).error, 0);
    const u64 local = read ? target : source;
    const u64 remote = pair.b.buffer.address + (read ? source : target);
    ASSERT_EQ(
        pair.a.post(rdma_wr(6, opcode, split(pair.a.buffer, local, size, shape.parts_from), remote, pair.b.buffer.rkey))
            .error,
        0);
    const u32 time = patience(static_cast<u32>(soon + (size >> 14)));
    const auto wcs = pair.a.sent(1, time);
    expect_wc(wcs, 6, IBV_WC_SUCCESS);
    if (read && !wcs.empty()) EXPECT_EQ(wcs[0].byte_len, size);
    if (takes_receive) {
      const auto got = pair.b.received(1, time);
      expect_wc(got, 5, IBV_WC_SUCCESS);
      if (!got.empty()) EXPECT_EQ(got[0].byte_len, size);
    }
    if (pair.spec.type != IBV_QPT_RC && !takes_receive) wait_for_last_byte(to, target + size - 1, size, seed);
    EXPECT_EQ(to.end->mismatch(to.buffer.address + target, size, seed), -1);
    EXPECT_EQ(to.end->differs(to.buffer.address + target - guard, guard, 0xcc), -1) << "written before the start";
    EXPECT_EQ(to.end->differs(to.buffer.address + target + size, guard, 0xcc), -1) << "written behind the end";
  }

  // An unreliable write is complete at the sender before it is at the target.
  static void wait_for_last_byte(const Node& to, u64 offset, u64 size, u32 seed) {
    Stopwatch watch;
    while (size != 0 && to.end->mismatch(to.buffer.address + offset + 1 - size, size, seed) != -1 &&
           watch.ms() < patience(2000)) {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  }

  void sweep(ibv_qp_type type, ibv_wr_opcode opcode, const std::vector<u64>& sizes) {
    Spec spec;
    spec.type = type;
    spec.buffer = sizes.back() + 4 * guard + 8192;
    Pair pair(a(), b(), spec);
    u32 seed = 1;
    for (const u64 size : sizes) {
      for (const Shape& shape : shapes) {
        SCOPED_TRACE("size " + std::to_string(size) + " offsets " + std::to_string(shape.offset_from) + " and " +
                     std::to_string(shape.offset_to) + " parts " + std::to_string(shape.parts_from) + " and " +
                     std::to_string(shape.parts_to));
        transfer(pair, opcode, size, shape, seed++);
        if (HasFailure()) return;
      }
    }
  }
};

const std::vector<u64> small = {0, 1, 7, 8, 63, 64, 65, 255, 256, 257, 1023, 1024, 1025};
const std::vector<u64> medium = {4095, 4096, 4097, 8191, 16385};
const std::vector<u64> large = {65535, 65536, 65537, 1024 * kib - 1, 1024 * kib, 1024 * kib + 1};

TEST_F(R12Data, RcSendSmall) { sweep(IBV_QPT_RC, IBV_WR_SEND, small); }
TEST_F(R12Data, RcSendMedium) { sweep(IBV_QPT_RC, IBV_WR_SEND, medium); }
TEST_F(R12Data, RcSendLarge) { sweep(IBV_QPT_RC, IBV_WR_SEND, large); }
TEST_F(R12Data, RcWriteSmall) { sweep(IBV_QPT_RC, IBV_WR_RDMA_WRITE, small); }
TEST_F(R12Data, RcWriteMedium) { sweep(IBV_QPT_RC, IBV_WR_RDMA_WRITE, medium); }
TEST_F(R12Data, RcWriteLarge) { sweep(IBV_QPT_RC, IBV_WR_RDMA_WRITE, large); }
TEST_F(R12Data, RcWriteImmSmall) { sweep(IBV_QPT_RC, IBV_WR_RDMA_WRITE_WITH_IMM, small); }
TEST_F(R12Data, RcWriteImmMedium) { sweep(IBV_QPT_RC, IBV_WR_RDMA_WRITE_WITH_IMM, medium); }
TEST_F(R12Data, RcReadSmall) { sweep(IBV_QPT_RC, IBV_WR_RDMA_READ, small); }
TEST_F(R12Data, RcReadMedium) { sweep(IBV_QPT_RC, IBV_WR_RDMA_READ, medium); }
TEST_F(R12Data, RcReadLarge) { sweep(IBV_QPT_RC, IBV_WR_RDMA_READ, large); }
TEST_F(R12Data, UcSendSmall) { sweep(IBV_QPT_UC, IBV_WR_SEND, small); }
TEST_F(R12Data, UcSendMedium) { sweep(IBV_QPT_UC, IBV_WR_SEND, medium); }
TEST_F(R12Data, UcWriteSmall) { sweep(IBV_QPT_UC, IBV_WR_RDMA_WRITE, small); }
TEST_F(R12Data, UcWriteMedium) { sweep(IBV_QPT_UC, IBV_WR_RDMA_WRITE, medium); }
TEST_F(R12Data, UcWriteImmSmall) { sweep(IBV_QPT_UC, IBV_WR_RDMA_WRITE_WITH_IMM, small); }

TEST_F(R12Data, DatagramsUpToTheMtu) {
  Spec spec;
  spec.type = IBV_QPT_UD;
  Pair pair(a(), b(), spec);
  const u64 mtu = 128ULL << pair.spec.mtu;
  u32 seed = 1;
  for (const u64 size : {u64{0}, u64{1}, u64{7}, u64{63}, u64{64}, u64{255}, mtu - 1, mtu}) {
    for (const u64 offset : {0u, 1u, 4093u}) {
      SCOPED_TRACE("size " + std::to_string(size) + " offset " + std::to_string(offset));
      a().fill(pair.a.buffer.address + offset, size, ++seed);
      ASSERT_EQ(pair.b.receive({{5, split(pair.b.buffer, offset, 40 + size, 3)}}).error, 0);
      ASSERT_EQ(pair.a.post(ud_wr(6, split(pair.a.buffer, offset, size, 2), pair.a, pair.b)).error, 0);
      expect_wc(pair.a.sent(), 6, IBV_WC_SUCCESS);
      const auto got = pair.b.received();
      expect_wc(got, 5, IBV_WC_SUCCESS);
      if (!got.empty()) EXPECT_EQ(got[0].byte_len, size + 40);
      EXPECT_EQ(b().mismatch(pair.b.buffer.address + offset + 40, size, seed), -1);
    }
  }
}

// No SGE at all: a message of no bytes, with all that belongs to one.
TEST_F(R12Data, NoEntriesAtAll) {
  Pair pair(a(), b());
  for (const ibv_wr_opcode opcode :
       {IBV_WR_SEND, IBV_WR_SEND_WITH_IMM, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_RDMA_READ}) {
    SCOPED_TRACE(name_of(opcode));
    const bool takes_receive = opcode != IBV_WR_RDMA_WRITE && opcode != IBV_WR_RDMA_READ;
    if (takes_receive) ASSERT_EQ(pair.b.receive(std::vector<Recv>{{5, {}}}).error, 0);
    Send send = rdma_wr(6, opcode, {}, pair.b.buffer.address, pair.b.buffer.rkey);
    send.imm = htobe32(0x12345678);
    ASSERT_EQ(pair.a.post(send).error, 0);
    expect_wc(pair.a.sent(), 6, IBV_WC_SUCCESS);
    if (!takes_receive) continue;
    const auto got = pair.b.received();
    expect_wc(got, 5, IBV_WC_SUCCESS);
    if (got.empty()) continue;
    EXPECT_EQ(got[0].byte_len, 0u);
    const bool imm = opcode != IBV_WR_SEND;
    EXPECT_EQ(bool(got[0].wc_flags & IBV_WC_WITH_IMM), imm);
    if (imm) EXPECT_EQ(be32toh(got[0].imm_data), 0x12345678u);
  }
}

// Both directions at once, many in flight, with a check of each.
TEST_F(R12Data, BothDirectionsAtOnce) {
  Spec spec;
  spec.buffer = 1 << 20;
  Pair pair(a(), b(), spec);
  const u64 size = 10001;
  for (const Node* node : {&pair.a, &pair.b}) {
    std::vector<Recv> list;
    for (u64 i = 0; i < 16; ++i) {
      node->end->fill(node->buffer.address + i * 16384, size, static_cast<u32>(i));
      list.push_back({i, {node->buffer.sge(524288 + i * 16384, size)}});
    }
    ASSERT_EQ(node->receive(list).error, 0);
  }
  for (const Node* node : {&pair.a, &pair.b}) {
    std::vector<Send> list;
    for (u64 i = 0; i < 16; ++i) list.push_back(send_wr(i, {node->buffer.sge(i * 16384, size)}));
    ASSERT_EQ(node->post(list).error, 0);
  }
  for (const Node* node : {&pair.a, &pair.b}) {
    ASSERT_EQ(node->sent(16, patience(20000)).size(), 16u);
    ASSERT_EQ(node->received(16, patience(20000)).size(), 16u);
    for (u64 i = 0; i < 16; ++i)
      EXPECT_EQ(node->end->mismatch(node->buffer.address + 524288 + i * 16384, size, static_cast<u32>(i)), -1);
  }
}

// The same memory at both ends of a transfer, where both ends are in one process and ranges do not overlap.
TEST_F(R12Data, WithinOneRegion) {
  Pair pair(a(), a());
  a().fill(pair.b.buffer.address, 10000, 6);
  const MadeMr mr = a().reg_mr(pair.a.pd, pair.b.buffer.address, 65536, all_access);
  ASSERT_NE(mr.id, 0u);
  ASSERT_EQ(pair.a
                .post(rdma_wr(1, IBV_WR_RDMA_WRITE, {{pair.b.buffer.address, 10000, mr.lkey}},
                              pair.b.buffer.address + 20000, pair.b.buffer.rkey))
                .error,
            0);
  expect_wc(pair.a.sent(), 1, IBV_WC_SUCCESS);
  EXPECT_EQ(a().mismatch(pair.b.buffer.address + 20000, 10000, 6), -1);
}

class R12Huge : public R12Data, public testing::WithParamInterface<ibv_wr_opcode> {};

// 2^31 bytes, the longest message there is (IBTA 9.4.1): from entries that add up to it.
TEST_P(R12Huge, TwoToThe31) {
  if (!options().huge) GTEST_SKIP() << "needs 4 GiB of memory and time: ask for it with --huge";
  const u64 size = 1ULL << 31;
  Spec spec;
  spec.buffer = size + 4 * guard + 8192;
  Pair pair(a(), b(), spec);
  transfer(pair, GetParam(), size, {1, 0, 2, 2}, 3);
}

TEST_P(R12Huge, OneMore) {
  if (!options().huge) GTEST_SKIP() << "needs 4 GiB of memory and time: ask for it with --huge";
  const u64 size = (1ULL << 31) + 1;
  Spec spec;
  spec.buffer = size;
  Pair pair(a(), b(), spec);
  ASSERT_EQ(pair.b.receive({{5, split(pair.b.buffer, 0, size, 2)}}).error, 0);
  const Posted posted =
      pair.a.post(rdma_wr(6, GetParam(), split(pair.a.buffer, 0, size, 2), pair.b.buffer.address, pair.b.buffer.rkey));
  if (posted.error != 0) {
    EXPECT_EQ(posted.error, EINVAL);
  } else {
    EXPECT_EQ(status_of(pair.a.sent(1, patience(60000))), IBV_WC_LOC_LEN_ERR);
  }
}

INSTANTIATE_TEST_SUITE_P(Opcodes, R12Huge, testing::Values(IBV_WR_SEND, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ),
                         [](const auto& test) { return name_of(test.param); });

}  // namespace
}  // namespace conformance
