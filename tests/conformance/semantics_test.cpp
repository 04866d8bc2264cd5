// Row 26: send with invalidate (also R25Type2), fences, unsignalled sends, sq_sig_all. Solicited events: R18Events.
#include "support.h"

namespace conformance {
namespace {

class R26Semantics : public Conformance {};

// A fenced request starts when all reads and atomics before it are done: it sends what they fetched.
TEST_F(R26Semantics, FenceAfterRead) {
  Pair pair(a(), b());
  const u64 size = 16384;
  const int rounds = options().slow > 1 ? 10 : 200;
  for (int i = 0; i < rounds; ++i) {
    b().fill(pair.b.buffer.address, size, static_cast<u32>(i));
    a().set(pair.a.buffer.address, size, 0xee);
    Send read = rdma_wr(1, IBV_WR_RDMA_READ, {pair.a.buffer.sge(0, size)}, pair.b.buffer.address, pair.b.buffer.rkey);
    Send write =
        rdma_wr(2, IBV_WR_RDMA_WRITE, {pair.a.buffer.sge(0, size)}, pair.b.buffer.address + 32768, pair.b.buffer.rkey);
    write.flags |= IBV_SEND_FENCE;
    ASSERT_EQ(pair.a.post({read, write}).error, 0);
    const auto wcs = pair.a.sent(2);
    ASSERT_EQ(wcs.size(), 2u);
    ASSERT_EQ(b().mismatch(pair.b.buffer.address + 32768, size, static_cast<u32>(i)), -1) << "round " << i;
  }
}

TEST_F(R26Semantics, FenceAfterAtomic) {
  Pair pair(a(), b());
  b().set(pair.b.buffer.address, 8, 0x21);
  a().set(pair.a.buffer.address, 8, 0);
  ASSERT_EQ(pair.b.receive(3, 4096, 64).error, 0);
  const Send add =
      atomic_wr(1, IBV_WR_ATOMIC_FETCH_AND_ADD, pair.a.buffer.sge(0, 8), pair.b.buffer.address, pair.b.buffer.rkey, 1);
  Send send = send_wr(2, {pair.a.buffer.sge(0, 8)});
  send.flags |= IBV_SEND_FENCE;
  ASSERT_EQ(pair.a.post({add, send}).error, 0);
  ASSERT_EQ(pair.a.sent(2).size(), 2u);
  expect_wc(pair.b.received(), 3, IBV_WC_SUCCESS);
  EXPECT_EQ(b().differs(pair.b.buffer.address + 4096, 8, 0x21), -1);
}

TEST_F(R26Semantics, UnsignalledGivesNoCompletion) {
  Pair pair(a(), b());
  Send silent = rdma_wr(1, IBV_WR_RDMA_WRITE, {pair.a.buffer.sge(0, 8)}, pair.b.buffer.address, pair.b.buffer.rkey);
  silent.flags = 0;
  Send loud = silent;
  loud.wr_id = 2;
  loud.flags = IBV_SEND_SIGNALED;
  ASSERT_EQ(pair.a.post({silent, silent, loud}).error, 0);
  expect_wc(pair.a.sent(), 2, IBV_WC_SUCCESS);
  EXPECT_TRUE(pair.a.sent(1, silence(50)).empty());
}

// An unsignalled request that fails does complete, and so do the flushed ones behind it.
TEST_F(R26Semantics, UnsignalledErrorsShow) {
  Pair pair(a(), b());
  Send bad = rdma_wr(1, IBV_WR_RDMA_WRITE, {pair.a.buffer.sge(0, 8)}, pair.b.buffer.address, 0);
  bad.flags = 0;
  Send next = send_wr(2, {pair.a.buffer.sge(0, 8)});
  next.flags = 0;
  ASSERT_EQ(pair.a.post({bad, next}).error, 0);
  const auto wcs = pair.a.sent(2);
  ASSERT_EQ(wcs.size(), 2u);
  EXPECT_EQ(wcs[0].wr_id, 1u);
  EXPECT_EQ(wcs[0].status, IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(wcs[1].wr_id, 2u);
  EXPECT_EQ(wcs[1].status, IBV_WC_WR_FLUSH_ERR);
}

// With one signalled request in every few, the send queue never fills.
TEST_F(R26Semantics, UnsignalledSlotsComeBack) {
  Spec spec;
  spec.cap.max_send_wr = 16;
  Pair pair(a(), b(), spec);
  for (u64 i = 0; i < 40; ++i) {
    std::vector<Send> list(
        8, rdma_wr(i, IBV_WR_RDMA_WRITE, {pair.a.buffer.sge(0, 8)}, pair.b.buffer.address, pair.b.buffer.rkey));
    for (size_t k = 0; k + 1 < list.size(); ++k) list[k].flags = 0;
    ASSERT_EQ(pair.a.post(list).error, 0) << "round " << i;
    expect_wc(pair.a.sent(), i, IBV_WC_SUCCESS);
  }
}

TEST_F(R26Semantics, SigAllSignalsAll) {
  Spec spec;
  spec.sq_sig_all = 1;
  Pair pair(a(), b(), spec);
  Send write = rdma_wr(1, IBV_WR_RDMA_WRITE, {pair.a.buffer.sge(0, 8)}, pair.b.buffer.address, pair.b.buffer.rkey);
  write.flags = 0;
  ASSERT_EQ(pair.a.post({write, write, write}).error, 0);
  EXPECT_EQ(pair.a.sent(3).size(), 3u);
  EXPECT_TRUE(pair.a.sent(1, silence(50)).empty());
}

// Completions come in the order of posting, whatever the kinds.
TEST_F(R26Semantics, OrderAcrossOpcodes) {
  Pair pair(a(), b());
  std::vector<Recv> receives(4, Recv{9, {pair.b.buffer.sge(8192, 64)}});
  ASSERT_EQ(pair.b.receive(receives).error, 0);
  const ibv_wr_opcode opcodes[] = {
      IBV_WR_RDMA_READ,     IBV_WR_SEND,      IBV_WR_RDMA_WRITE,         IBV_WR_ATOMIC_FETCH_AND_ADD,
      IBV_WR_SEND_WITH_IMM, IBV_WR_RDMA_READ, IBV_WR_RDMA_WRITE_WITH_IMM};
  const ibv_wc_opcode wanted[] = {IBV_WC_RDMA_READ, IBV_WC_SEND,      IBV_WC_RDMA_WRITE, IBV_WC_FETCH_ADD,
                                  IBV_WC_SEND,      IBV_WC_RDMA_READ, IBV_WC_RDMA_WRITE};
  std::vector<Send> list;
  for (u64 i = 0; i < 7; ++i)
    list.push_back(rdma_wr(i, opcodes[i], {pair.a.buffer.sge(64 * i, 8)}, pair.b.buffer.address, pair.b.buffer.rkey));
  ASSERT_EQ(pair.a.post(list).error, 0);
  const auto wcs = pair.a.sent(7);
  ASSERT_EQ(wcs.size(), 7u);
  for (u64 i = 0; i < 7; ++i) {
    EXPECT_EQ(wcs[i].wr_id, i);
    EXPECT_EQ(wcs[i].opcode, wanted[i]) << i;
    EXPECT_EQ(wcs[i].status, IBV_WC_SUCCESS);
    EXPECT_EQ(wcs[i].qp_num, pair.a.qpn);
  }
}

// A send follows a write on the same QP: when it is received, the written data are there.
TEST_F(R26Semantics, WriteThenSendIsOrdered) {
  Pair pair(a(), b());
  const int rounds = options().slow > 1 ? 10 : 200;
  for (int i = 0; i < rounds; ++i) {
    a().fill(pair.a.buffer.address, 20000, static_cast<u32>(i));
    ASSERT_EQ(pair.b.receive(1, 40000, 8).error, 0);
    Send write =
        rdma_wr(2, IBV_WR_RDMA_WRITE, {pair.a.buffer.sge(0, 20000)}, pair.b.buffer.address, pair.b.buffer.rkey);
    write.flags = 0;
    ASSERT_EQ(pair.a.post({write, send_wr(3, {pair.a.buffer.sge(0, 8)})}).error, 0);
    expect_wc(pair.b.received(), 1, IBV_WC_SUCCESS);
    ASSERT_EQ(b().mismatch(pair.b.buffer.address, 20000, static_cast<u32>(i)), -1) << "round " << i;
    expect_wc(pair.a.sent(), 3, IBV_WC_SUCCESS);
  }
}

// What a completion says of a message with immediate, of each kind.
TEST_F(R26Semantics, Immediates) {
  for (const ibv_qp_type type : {IBV_QPT_RC, IBV_QPT_UC}) {
    for (const ibv_wr_opcode opcode : {IBV_WR_SEND_WITH_IMM, IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_SEND}) {
      SCOPED_TRACE(name_of(opcode));
      Spec spec;
      spec.type = type;
      Pair pair(a(), b(), spec);
      ASSERT_EQ(pair.b.receive(1, 0, 64).error, 0);
      Send send = rdma_wr(2, opcode, {pair.a.buffer.sge(0, 8)}, pair.b.buffer.address, pair.b.buffer.rkey);
      send.imm = htobe32(0xa1b2c3d4);
      ASSERT_EQ(pair.a.post(send).error, 0);
      const auto wcs = pair.b.received();
      expect_wc(wcs, 1, IBV_WC_SUCCESS);
      if (wcs.empty()) continue;
      const bool imm = opcode != IBV_WR_SEND;
      EXPECT_EQ(bool(wcs[0].wc_flags & IBV_WC_WITH_IMM), imm);
      if (imm) EXPECT_EQ(be32toh(wcs[0].imm_data), 0xa1b2c3d4u);
      EXPECT_EQ(wcs[0].opcode, opcode == IBV_WR_RDMA_WRITE_WITH_IMM ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV);
      EXPECT_EQ(wcs[0].qp_num, pair.b.qpn);
    }
  }
}

}  // namespace
}  // namespace conformance
