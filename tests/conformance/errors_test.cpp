// Rows 7, 8 and 9: what goes wrong at the responder, and with local keys.
#include "support.h"

namespace conformance {
namespace {

class R07Length : public Conformance {
 protected:
  // Sends `size` bytes into receives of the given parts; both sides must end in ERR with the right statuses.
  static void too_long(const Spec& spec, ibv_wr_opcode opcode, u64 size, std::vector<u64> parts) {
    Pair pair(end_a(), end_b(), spec);
    Recv recv{1, {}};
    u64 at = 0;
    for (const u64 part : parts) {
      recv.sges.push_back(pair.b.buffer.sge(at, part));
      at += part;
    }
    b_set(pair, 0xcc);
    ASSERT_EQ(pair.b.receive({recv, {2, {pair.b.buffer.sge(0, 8)}}}).error, 0);
    Send send = send_wr(3, {pair.a.buffer.sge(0, size)});
    send.opcode = opcode;
    ASSERT_EQ(pair.a.post({send, send_wr(4, {pair.a.buffer.sge(0, 1)})}).error, 0);
    const auto sent = pair.a.sent(2);
    ASSERT_EQ(sent.size(), 2u);
    EXPECT_EQ(sent[0].status, IBV_WC_REM_INV_REQ_ERR) << ibv_wc_status_str(sent[0].status);
    EXPECT_EQ(sent[1].status, IBV_WC_WR_FLUSH_ERR);
    const auto got = pair.b.received(spec.srq ? 1 : 2);
    ASSERT_EQ(got.size(), spec.srq ? 1u : 2u);
    EXPECT_EQ(got[0].wr_id, 1u);
    EXPECT_EQ(got[0].status, IBV_WC_LOC_LEN_ERR) << ibv_wc_status_str(got[0].status);
    if (!spec.srq) EXPECT_EQ(got[1].status, IBV_WC_WR_FLUSH_ERR);
    EXPECT_EQ(pair.a.state_becomes(IBV_QPS_ERR), IBV_QPS_ERR);
    EXPECT_EQ(pair.b.state_becomes(IBV_QPS_ERR), IBV_QPS_ERR);
    EXPECT_EQ(pair.b.end->differs(pair.b.buffer.address + at, 4096, 0xcc), -1)
        << "bytes behind the receive were written";
  }

  static void b_set(const Pair& pair, u8 value) { pair.b.end->set(pair.b.buffer.address, pair.b.buffer.size, value); }
};

TEST_F(R07Length, OneByteTooMuch) { too_long({}, IBV_WR_SEND, 101, {100}); }
TEST_F(R07Length, WithImmediate) { too_long({}, IBV_WR_SEND_WITH_IMM, 101, {100}); }
TEST_F(R07Length, IntoNothing) { too_long({}, IBV_WR_SEND, 1, {}); }
TEST_F(R07Length, IntoAnEmptyEntry) { too_long({}, IBV_WR_SEND, 8, {0}); }
TEST_F(R07Length, SeveralEntries) { too_long({}, IBV_WR_SEND, 3001, {1000, 1000, 1000}); }
TEST_F(R07Length, ManyPackets) { too_long({}, IBV_WR_SEND, 60000, {20000}); }
TEST_F(R07Length, FromASharedQueue) {
  Spec spec;
  spec.srq = true;
  too_long(spec, IBV_WR_SEND, 101, {100});
}

TEST_F(R07Length, ShorterIsFine) {
  Pair pair(a(), b());
  b_set(pair, 0xcc);
  ASSERT_EQ(pair.b.receive(1, 0, 100).error, 0);
  a().fill(pair.a.buffer.address, 40, 1);
  ASSERT_EQ(pair.a.post(send_wr(2, {pair.a.buffer.sge(0, 40)})).error, 0);
  const auto wcs = pair.b.received();
  expect_wc(wcs, 1, IBV_WC_SUCCESS);
  if (!wcs.empty()) EXPECT_EQ(wcs[0].byte_len, 40u);
  EXPECT_EQ(b().mismatch(pair.b.buffer.address, 40, 1), -1);
  EXPECT_EQ(b().differs(pair.b.buffer.address + 40, 60, 0xcc), -1);
}

// RDMA WRITE with immediate takes a receive but no room in it.
TEST_F(R07Length, WriteWithImmediateNeedsNoRoom) {
  Pair pair(a(), b());
  ASSERT_EQ(pair.b.receive(std::vector<Recv>{{1, {}}}).error, 0);
  ASSERT_EQ(pair.a
                .post(rdma_wr(2, IBV_WR_RDMA_WRITE_WITH_IMM, {pair.a.buffer.sge(0, 5000)}, pair.b.buffer.address,
                              pair.b.buffer.rkey))
                .error,
            0);
  const auto wcs = pair.b.received();
  expect_wc(wcs, 1, IBV_WC_SUCCESS);
  if (wcs.empty()) return;
  EXPECT_EQ(wcs[0].byte_len, 5000u);
  EXPECT_EQ(wcs[0].opcode, IBV_WC_RECV_RDMA_WITH_IMM);
}

// ---- Row 8

enum class Fault { unknown_key, stale_key, other_pd, front, back, wrap, permission, qp_permission, huge };

std::string fault_name(Fault fault) {
  static const char* const names[] = {"UnknownKey", "StaleKey",     "OtherPd",      "Front", "Back",
                                      "Wrap",       "MrPermission", "QpPermission", "Huge"};
  return names[static_cast<int>(fault)];
}

using RemoteCase = std::tuple<ibv_wr_opcode, Fault>;

class R08Remote : public Conformance, public testing::WithParamInterface<RemoteCase> {
 protected:
  static u32 needed(ibv_wr_opcode opcode) {
    if (opcode == IBV_WR_RDMA_READ) return IBV_ACCESS_REMOTE_READ;
    if (opcode == IBV_WR_ATOMIC_CMP_AND_SWP || opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) return IBV_ACCESS_REMOTE_ATOMIC;
    return IBV_ACCESS_REMOTE_WRITE;
  }

  // The address and key of a target that has this fault; the region is the middle third of the memory.
  Send faulty(const Pair& pair, ibv_wr_opcode opcode, Fault fault) {
    const Buffer& memory = pair.b.buffer;
    const u64 start = memory.address + 16384;
    const u64 size = 16384;
    Id pd = pair.b.pd;
    if (fault == Fault::other_pd) pd = b().alloc_pd().id;
    const u32 access = fault == Fault::permission ? all_access & ~needed(opcode) : all_access;
    const MadeMr mr = b().reg_mr(pd, start, size, access);
    must(mr.error, "ibv_reg_mr");
    Send send = rdma_wr(1, opcode, {pair.a.buffer.sge(0, 8)}, start, mr.rkey);
    send.compare_add = 1;
    if (fault == Fault::unknown_key) send.rkey ^= 0x5a5a5a00;
    if (fault == Fault::front) send.remote_addr = start - 8;
    if (fault == Fault::back) send.remote_addr = start + size;
    if (fault == Fault::wrap) send.remote_addr = ~7ULL;
    if (fault == Fault::huge && !is_atomic(opcode)) send.sges = {pair.a.buffer.sge(0, size + 1)};
    if (fault == Fault::stale_key) must(b().dereg_mr(mr.id), "ibv_dereg_mr");
    return send;
  }

  static bool is_atomic(ibv_wr_opcode opcode) {
    return opcode == IBV_WR_ATOMIC_CMP_AND_SWP || opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
  }
};

TEST_P(R08Remote, Refused) {
  const auto [opcode, fault] = GetParam();
  if (fault == Fault::huge && is_atomic(opcode)) GTEST_SKIP() << "an atomic has eight bytes";
  Spec spec;
  if (fault == Fault::qp_permission) spec.qp_access = all_access & ~needed(opcode);
  Pair pair(a(), b(), spec);
  b().set(pair.b.buffer.address, pair.b.buffer.size, 0xcc);
  a().set(pair.a.buffer.address, pair.a.buffer.size, 0x11);
  ASSERT_EQ(pair.b.receive(std::vector<Recv>{{9, {pair.b.buffer.sge(0, 8)}}}).error, 0);
  ASSERT_EQ(pair.a.post({faulty(pair, opcode, fault), send_wr(2, {pair.a.buffer.sge(0, 8)})}).error, 0);
  const auto wcs = pair.a.sent(2);
  ASSERT_EQ(wcs.size(), 2u);
  // A QP that was not given the permission is one that does not support the request: IBTA 9.7.4.1, table 58.
  const bool unsupported = fault == Fault::qp_permission;
  const ibv_wc_status wanted = unsupported ? IBV_WC_REM_INV_REQ_ERR : IBV_WC_REM_ACCESS_ERR;
  EXPECT_EQ(wcs[0].status, wanted) << ibv_wc_status_str(wcs[0].status);
  EXPECT_EQ(wcs[1].status, IBV_WC_WR_FLUSH_ERR);
  EXPECT_EQ(pair.a.state_becomes(IBV_QPS_ERR), IBV_QPS_ERR);
  EXPECT_EQ(pair.b.state_becomes(IBV_QPS_ERR), IBV_QPS_ERR);
  EXPECT_EQ(b().differs(pair.b.buffer.address, pair.b.buffer.size, 0xcc), -1) << "the target was written";
  EXPECT_EQ(a().differs(pair.a.buffer.address, pair.a.buffer.size, 0x11), -1) << "data came back";
}

TEST_P(R08Remote, ResponderIsTold) {
  const auto [opcode, fault] = GetParam();
  if (fault == Fault::huge && is_atomic(opcode)) GTEST_SKIP() << "an atomic has eight bytes";
  Spec spec;
  if (fault == Fault::qp_permission) spec.qp_access = all_access & ~needed(opcode);
  Pair pair(a(), b(), spec);
  ASSERT_EQ(pair.b.receive(9, 0, 8).error, 0);
  ASSERT_EQ(pair.a.post(faulty(pair, opcode, fault)).error, 0);
  const ibv_event_type type = fault == Fault::qp_permission ? IBV_EVENT_QP_REQ_ERR : IBV_EVENT_QP_ACCESS_ERR;
  const Event event = wait_for(b(), type, patience(1000));
  ASSERT_FALSE(event.none) << "no " << ibv_event_type_str(type);
  EXPECT_EQ(event.object, pair.b.qp);
  expect_wc(pair.b.received(), 9, IBV_WC_WR_FLUSH_ERR);
}

INSTANTIATE_TEST_SUITE_P(
    Faults, R08Remote,
    testing::Combine(testing::Values(IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_RDMA_READ,
                                     IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WR_ATOMIC_FETCH_AND_ADD),
                     testing::Values(Fault::unknown_key, Fault::stale_key, Fault::other_pd, Fault::front, Fault::back,
                                     Fault::wrap, Fault::permission, Fault::qp_permission, Fault::huge)),
    [](const auto& test) { return name_of(std::get<0>(test.param)) + fault_name(std::get<1>(test.param)); });

class R08More : public Conformance {};

// IBTA 9.7.4.1.3: the key of an operation of no bytes is not looked at.
TEST_F(R08More, NoBytesNoCheck) {
  Pair pair(a(), b());
  for (const ibv_wr_opcode opcode : {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ}) {
    SCOPED_TRACE(name_of(opcode));
    ASSERT_EQ(pair.a.post(rdma_wr(1, opcode, {}, 0xdead000, 0xbadbad00)).error, 0);
    expect_wc(pair.a.sent(), 1, IBV_WC_SUCCESS);
  }
  EXPECT_EQ(pair.b.state(), IBV_QPS_RTS);
}

// The very first and the very last byte of a region are inside.
TEST_F(R08More, EdgesAreInside) {
  Pair pair(a(), b());
  const u64 start = pair.b.buffer.address + 5000;
  const MadeMr mr = b().reg_mr(pair.b.pd, start, 1001, all_access);
  ASSERT_NE(mr.id, 0u);
  for (const auto& [offset, length] : std::vector<std::pair<u64, u64>>{{0, 1}, {1000, 1}, {0, 1001}}) {
    for (const ibv_wr_opcode opcode : {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ}) {
      ASSERT_EQ(pair.a.post(rdma_wr(1, opcode, {pair.a.buffer.sge(0, length)}, start + offset, mr.rkey)).error, 0);
      expect_wc(pair.a.sent(), 1, IBV_WC_SUCCESS);
    }
  }
}

// One byte outside, among many inside, in a message of many packets: error, and nothing outside is touched.
TEST_F(R08More, LastByteOutside) {
  Pair pair(a(), b());
  const u64 start = pair.b.buffer.address;
  const MadeMr mr = b().reg_mr(pair.b.pd, start, 20000, all_access);
  b().set(start, 65536, 0xcc);
  ASSERT_EQ(pair.a.post(rdma_wr(1, IBV_WR_RDMA_WRITE, {pair.a.buffer.sge(0, 20001)}, start, mr.rkey)).error, 0);
  expect_wc(pair.a.sent(), 1, IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(b().differs(start + 20000, 4096, 0xcc), -1);
}

// The low byte of a key counts.
TEST_F(R08More, KeyByteDiffers) {
  Pair pair(a(), b());
  ASSERT_EQ(
      pair.a
          .post(rdma_wr(1, IBV_WR_RDMA_WRITE, {pair.a.buffer.sge(0, 8)}, pair.b.buffer.address, pair.b.buffer.rkey ^ 1))
          .error,
      0);
  expect_wc(pair.a.sent(), 1, IBV_WC_REM_ACCESS_ERR);
}

// UC has no NAK: the sender is content, the target untouched, the connection lives.
TEST_F(R08More, UnreliableIsDropped) {
  Spec spec;
  spec.type = IBV_QPT_UC;
  Pair pair(a(), b(), spec);
  b().set(pair.b.buffer.address, 4096, 0xcc);
  ASSERT_EQ(pair.a
                .post(rdma_wr(1, IBV_WR_RDMA_WRITE, {pair.a.buffer.sge(0, 8)}, pair.b.buffer.address,
                              pair.b.buffer.rkey ^ 0x100))
                .error,
            0);
  expect_wc(pair.a.sent(), 1, IBV_WC_SUCCESS);
  std::this_thread::sleep_for(std::chrono::milliseconds(silence(50)));
  EXPECT_EQ(b().differs(pair.b.buffer.address, 4096, 0xcc), -1);
  EXPECT_EQ(pair.a.state(), IBV_QPS_RTS);
}

// After an error both QPs can be reset and used again.
TEST_F(R08More, RecoverByReset) {
  Pair pair(a(), b());
  for (int round = 0; round < 3; ++round) {
    ASSERT_EQ(pair.a.post(rdma_wr(1, IBV_WR_RDMA_WRITE, {pair.a.buffer.sge(0, 8)}, pair.b.buffer.address, 0)).error, 0);
    expect_wc(pair.a.sent(), 1, IBV_WC_REM_ACCESS_ERR);
    pair.b.state_becomes(IBV_QPS_ERR);
    must(modify_state(pair.a, IBV_QPS_RESET), "RESET");
    must(modify_state(pair.b, IBV_QPS_RESET), "RESET");
    pair.connect();
    expect_traffic(pair);
  }
}

// ---- Row 9

enum class LocalFault { unknown_key, stale_key, other_pd, front, back, wrap, read_only };

std::string fault_name(LocalFault fault) {
  static const char* const names[] = {"UnknownKey", "StaleKey", "OtherPd", "Front", "Back", "Wrap", "NoLocalWrite"};
  return names[static_cast<int>(fault)];
}

// An entry of a list of SGEs that has this fault.
ibv_sge faulty_sge(End& end, const Node& node, LocalFault fault) {
  const u64 start = node.buffer.address + 16384;
  const Id pd = fault == LocalFault::other_pd ? end.alloc_pd().id : node.pd;
  const MadeMr mr = end.reg_mr(pd, start, 16384, fault == LocalFault::read_only ? 0 : IBV_ACCESS_LOCAL_WRITE);
  must(mr.error, "ibv_reg_mr");
  ibv_sge sge{start, 64, mr.lkey};
  if (fault == LocalFault::unknown_key) sge.lkey ^= 0x5a5a5a00;
  if (fault == LocalFault::front) sge.addr = start - 1;
  if (fault == LocalFault::back) sge.addr = start + 16384 - 63;
  if (fault == LocalFault::wrap) sge.addr = ~7ULL;
  if (fault == LocalFault::stale_key) must(end.dereg_mr(mr.id), "ibv_dereg_mr");
  return sge;
}

class R09Local : public Conformance, public testing::WithParamInterface<LocalFault> {};

void bad_send(ibv_wr_opcode opcode, LocalFault fault, bool second_entry) {
  Pair pair(end_a(), end_b());
  ASSERT_EQ(pair.b.receive(9, 0, 4096).error, 0);
  std::vector<ibv_sge> sges = {faulty_sge(end_a(), pair.a, fault)};
  if (second_entry) sges.insert(sges.begin(), pair.a.buffer.sge(0, 64));
  ASSERT_EQ(pair.a
                .post({rdma_wr(1, opcode, sges, pair.b.buffer.address, pair.b.buffer.rkey),
                       send_wr(2, {pair.a.buffer.sge(0, 8)})})
                .error,
            0);
  const auto wcs = pair.a.sent(2);
  ASSERT_EQ(wcs.size(), 2u);
  EXPECT_EQ(wcs[0].wr_id, 1u);
  EXPECT_EQ(wcs[0].status, IBV_WC_LOC_PROT_ERR) << ibv_wc_status_str(wcs[0].status);
  EXPECT_EQ(wcs[1].status, IBV_WC_WR_FLUSH_ERR);
  EXPECT_EQ(pair.a.state_becomes(IBV_QPS_ERR), IBV_QPS_ERR);
  EXPECT_TRUE(pair.b.received(1, silence(50)).empty()) << "the message must not arrive";
}

TEST_P(R09Local, Send) {
  if (GetParam() == LocalFault::read_only) GTEST_SKIP() << "sending needs no right to write";
  bad_send(IBV_WR_SEND, GetParam(), false);
}
TEST_P(R09Local, SendSecondEntry) {
  if (GetParam() == LocalFault::read_only) GTEST_SKIP() << "sending needs no right to write";
  bad_send(IBV_WR_SEND, GetParam(), true);
}
TEST_P(R09Local, Write) {
  if (GetParam() == LocalFault::read_only) GTEST_SKIP() << "writing from memory needs no right to write it";
  bad_send(IBV_WR_RDMA_WRITE, GetParam(), false);
}
TEST_P(R09Local, Read) { bad_send(IBV_WR_RDMA_READ, GetParam(), false); }

void bad_receive(LocalFault fault, bool srq, bool second_entry) {
  Spec spec;
  spec.srq = srq;
  Pair pair(end_a(), end_b(), spec);
  Recv recv{1, {faulty_sge(end_b(), pair.b, fault)}};
  if (second_entry) recv.sges.insert(recv.sges.begin(), pair.b.buffer.sge(0, 32));
  ASSERT_EQ(pair.b.receive({recv}).error, 0);
  ASSERT_EQ(pair.a.post(send_wr(2, {pair.a.buffer.sge(0, 64)})).error, 0);
  expect_wc(pair.a.sent(), 2, IBV_WC_REM_OP_ERR);
  expect_wc(pair.b.received(), 1, IBV_WC_LOC_PROT_ERR);
  EXPECT_EQ(pair.a.state_becomes(IBV_QPS_ERR), IBV_QPS_ERR);
  EXPECT_EQ(pair.b.state_becomes(IBV_QPS_ERR), IBV_QPS_ERR);
}

TEST_P(R09Local, Receive) { bad_receive(GetParam(), false, false); }
TEST_P(R09Local, ReceiveSecondEntry) { bad_receive(GetParam(), false, true); }
TEST_P(R09Local, SharedReceive) { bad_receive(GetParam(), true, false); }

INSTANTIATE_TEST_SUITE_P(Faults, R09Local,
                         testing::Values(LocalFault::unknown_key, LocalFault::stale_key, LocalFault::other_pd,
                                         LocalFault::front, LocalFault::back, LocalFault::wrap, LocalFault::read_only),
                         [](const auto& test) { return fault_name(test.param); });

class R09More : public Conformance {};

TEST_F(R09More, AtomicResult) {
  Pair pair(a(), b());
  ASSERT_EQ(pair.a
                .post(atomic_wr(1, IBV_WR_ATOMIC_FETCH_AND_ADD, {pair.a.buffer.address, 8, pair.a.buffer.lkey ^ 0x100},
                                pair.b.buffer.address, pair.b.buffer.rkey, 1))
                .error,
            0);
  expect_wc(pair.a.sent(), 1, IBV_WC_LOC_PROT_ERR);
  EXPECT_EQ(pair.a.state_becomes(IBV_QPS_ERR), IBV_QPS_ERR);
}

TEST_F(R09More, DatagramSend) {
  Spec spec;
  spec.type = IBV_QPT_UD;
  Pair pair(a(), b(), spec);
  ASSERT_EQ(pair.b.receive(9, 0, 512).error, 0);
  ASSERT_EQ(pair.a.post(ud_wr(1, {{pair.a.buffer.address, 8, pair.a.buffer.lkey ^ 0x100}}, pair.a, pair.b)).error, 0);
  expect_wc(pair.a.sent(), 1, IBV_WC_LOC_PROT_ERR);
  EXPECT_TRUE(pair.b.received(1, silence(50)).empty());
}

// An entry of no bytes is not looked at.
TEST_F(R09More, EmptyEntryWithABadKey) {
  Pair pair(a(), b());
  a().fill(pair.a.buffer.address, 64, 1);
  ASSERT_EQ(pair.b.receive(std::vector<Recv>{{2, {{0, 0, 0xbad}, pair.b.buffer.sge(0, 64)}}}).error, 0);
  ASSERT_EQ(pair.a.post(send_wr(1, {{0, 0, 0xbad}, pair.a.buffer.sge(0, 64)})).error, 0);
  expect_wc(pair.a.sent(), 1, IBV_WC_SUCCESS);
  expect_wc(pair.b.received(), 2, IBV_WC_SUCCESS);
  EXPECT_EQ(b().mismatch(pair.b.buffer.address, 64, 1), -1);
}

// The peer of a QP that failed by itself finds out only by silence.
TEST_F(R09More, PeerOfAFailedQpIsUnharmed) {
  Pair pair(a(), b());
  ASSERT_EQ(pair.a.post(send_wr(1, {{pair.a.buffer.address, 8, 0xbad000}})).error, 0);
  expect_wc(pair.a.sent(), 1, IBV_WC_LOC_PROT_ERR);
  EXPECT_EQ(pair.b.state(), IBV_QPS_RTS);
}

}  // namespace
}  // namespace conformance
