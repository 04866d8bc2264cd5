// Rows 15, 16 and 17: unreliable datagrams.
#include <cstring>

#include "support.h"

namespace conformance {
namespace {

class Datagrams : public Conformance {
 protected:
  static Spec spec(bool global = false) {
    Spec wanted;
    wanted.type = IBV_QPT_UD;
    wanted.global = global;
    return wanted;
  }

  // Sends 100 bytes from a to b and gives the completion at b; the payload is checked.
  ibv_wc pass(const Pair& pair) {
    a().fill(pair.a.buffer.address, 100, 8);
    b().set(pair.b.buffer.address, 4096, 0xcc);
    EXPECT_EQ(pair.b.receive(1, 0, 4096).error, 0);
    EXPECT_EQ(pair.a.post(ud_wr(2, {pair.a.buffer.sge(0, 100)}, pair.a, pair.b)).error, 0);
    expect_wc(pair.a.sent(), 2, IBV_WC_SUCCESS);
    const auto wcs = pair.b.received();
    expect_wc(wcs, 1, IBV_WC_SUCCESS);
    EXPECT_EQ(b().mismatch(pair.b.buffer.address + 40, 100, 8), -1);
    EXPECT_EQ(b().differs(pair.b.buffer.address + 140, 3000, 0xcc), -1);
    return wcs.empty() ? ibv_wc{} : wcs[0];
  }
};

class R15Grh : public Datagrams {};

TEST_F(R15Grh, FortyBytesOfRoomAlways) {
  Pair pair(a(), b(), spec());
  const ibv_wc wc = pass(pair);
  EXPECT_EQ(wc.byte_len, 140u);
  EXPECT_EQ(wc.opcode, IBV_WC_RECV);
  EXPECT_EQ(wc.qp_num, pair.b.qpn);
  EXPECT_EQ(wc.src_qp, pair.a.qpn);
  EXPECT_EQ(wc.pkey_index, 0);
}

TEST_F(R15Grh, FlagOnlyWhereOneCame) {
  Pair pair(a(), b(), spec());
  const ibv_wc wc = pass(pair);
  EXPECT_EQ(bool(wc.wc_flags & IBV_WC_GRH), pair.a.info.ethernet != 0);
  if (pair.a.info.ethernet) return;
  EXPECT_EQ(wc.slid, pair.a.info.port.lid);
  EXPECT_EQ(wc.sl, 0);
}

// What lies in the forty bytes: a GRH, or on RoCE over IPv4 an IPv4 header in the last twenty.
TEST_F(R15Grh, Content) {
  Pair pair(a(), b(), spec(true));
  const ibv_wc wc = pass(pair);
  EXPECT_TRUE(wc.wc_flags & IBV_WC_GRH);
  const Bytes room = b().read_bytes(pair.b.buffer.address, 40);
  const u8* from = pair.a.info.gid.raw;
  const u8* to = pair.b.info.gid.raw;
  static const u8 mapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  if (pair.a.info.ethernet && std::memcmp(from, mapped, 12) == 0) {
    EXPECT_EQ(room[20] >> 4, 4);
    EXPECT_EQ(std::memcmp(&room[32], from + 12, 4), 0) << "source address";
    EXPECT_EQ(std::memcmp(&room[36], to + 12, 4), 0) << "destination address";
  } else {
    EXPECT_EQ(room[0] >> 4, 6);
    EXPECT_EQ(std::memcmp(&room[8], from, 16), 0) << "source GID";
    EXPECT_EQ(std::memcmp(&room[24], to, 16), 0) << "destination GID";
  }
}

// ibv_init_ah_from_wc and an answer by it: what every UD server does.
TEST_F(R15Grh, AnswerByTheCompletion) {
  for (const bool global : {false, true}) {
    Pair pair(a(), a(), spec(global));  // the call needs the completion and the buffer in one process
    ASSERT_EQ(pair.b.receive(1, 0, 512).error, 0);
    ASSERT_EQ(pair.a.post(ud_wr(2, {pair.a.buffer.sge(0, 64)}, pair.a, pair.b)).error, 0);
    expect_wc(pair.a.sent(), 2, IBV_WC_SUCCESS);
    auto wcs = pair.b.received();
    expect_wc(wcs, 1, IBV_WC_SUCCESS);
    if (wcs.empty()) return;
    ibv_ah_attr attr{};
    auto* grh = reinterpret_cast<ibv_grh*>(pair.b.buffer.address);
    ASSERT_EQ(ibv_init_ah_from_wc(a().device()->context(), pair.b.info.port_num, wcs.data(), grh, &attr), 0);
    const Made ah = a().create_ah(pair.b.pd, attr);
    ASSERT_NE(ah.id, 0u) << ah.error;
    ASSERT_EQ(pair.a.receive(3, 1024, 512).error, 0);
    Send answer = ud_wr(4, {pair.b.buffer.sge(0, 10)}, pair.b, pair.a);
    answer.ah = ah.id;
    answer.remote_qpn = wcs[0].src_qp;
    ASSERT_EQ(pair.b.post(answer).error, 0);
    expect_wc(pair.b.sent(), 4, IBV_WC_SUCCESS);
    expect_wc(pair.a.received(), 3, IBV_WC_SUCCESS);
  }
}

TEST_F(R15Grh, Immediate) {
  Pair pair(a(), b(), spec());
  ASSERT_EQ(pair.b.receive(1, 0, 512).error, 0);
  Send send = ud_wr(2, {pair.a.buffer.sge(0, 64)}, pair.a, pair.b);
  send.opcode = IBV_WR_SEND_WITH_IMM;
  send.imm = htobe32(0xcafe0001);
  ASSERT_EQ(pair.a.post(send).error, 0);
  expect_wc(pair.a.sent(), 2, IBV_WC_SUCCESS);
  const auto wcs = pair.b.received();
  expect_wc(wcs, 1, IBV_WC_SUCCESS);
  if (wcs.empty()) return;
  EXPECT_TRUE(wcs[0].wc_flags & IBV_WC_WITH_IMM);
  EXPECT_EQ(be32toh(wcs[0].imm_data), 0xcafe0001u);
}

TEST_F(R15Grh, FromASharedReceiveQueue) {
  Spec wanted = spec();
  wanted.srq = true;
  Pair pair(a(), b(), wanted);
  pass(pair);
}

// ---- Row 16

class R16Qkey : public Datagrams {};

TEST_F(R16Qkey, WrongOneIsDropped) {
  Pair pair(a(), b(), spec());
  ASSERT_EQ(pair.b.receive(1, 0, 512).error, 0);
  ASSERT_EQ(pair.a.post(ud_wr(2, {pair.a.buffer.sge(0, 64)}, pair.a, pair.b, default_qkey ^ 1)).error, 0);
  expect_wc(pair.a.sent(), 2, IBV_WC_SUCCESS);
  EXPECT_TRUE(pair.b.received(1, silence()).empty());
  ASSERT_EQ(pair.a.post(ud_wr(3, {pair.a.buffer.sge(0, 64)}, pair.a, pair.b)).error, 0);
  expect_wc(pair.b.received(), 1, IBV_WC_SUCCESS);
}

TEST_F(R16Qkey, ViolationIsCounted) {
  Pair pair(a(), b(), spec());
  const u32 before = b().info().port.qkey_viol_cntr;
  for (int i = 0; i < 3; ++i) ASSERT_EQ(pair.a.post(ud_wr(2, {pair.a.buffer.sge(0, 64)}, pair.a, pair.b, 5)).error, 0);
  ASSERT_EQ(pair.a.sent(3).size(), 3u);
  std::this_thread::sleep_for(std::chrono::milliseconds(silence(50)));
  EXPECT_EQ(b().info().port.qkey_viol_cntr, before + 3);
}

// IBTA 10.2.5: with the top bit set in the request, the QP's own Q_Key is sent.
TEST_F(R16Qkey, TopBitMeansTheQpsOwn) {
  Pair pair(a(), b(), spec());
  ASSERT_EQ(pair.b.receive(1, 0, 512).error, 0);
  ASSERT_EQ(pair.a.post(ud_wr(2, {pair.a.buffer.sge(0, 64)}, pair.a, pair.b, 0x80000000)).error, 0);
  expect_wc(pair.a.sent(), 2, IBV_WC_SUCCESS);
  expect_wc(pair.b.received(1, patience(1000)), 1, IBV_WC_SUCCESS);
}

TEST_F(R16Qkey, ChangedByModify) {
  Pair pair(a(), b(), spec());
  ibv_qp_attr attr{};
  attr.qkey = 0x777;
  ASSERT_EQ(b().modify_qp(pair.b.qp, attr, IBV_QP_QKEY), 0);
  ASSERT_EQ(pair.b.receive(1, 0, 512).error, 0);
  ASSERT_EQ(pair.a.post(ud_wr(2, {pair.a.buffer.sge(0, 64)}, pair.a, pair.b)).error, 0);
  EXPECT_TRUE(pair.b.received(1, silence()).empty());
  ASSERT_EQ(pair.a.post(ud_wr(3, {pair.a.buffer.sge(0, 64)}, pair.a, pair.b, 0x777)).error, 0);
  expect_wc(pair.b.received(), 1, IBV_WC_SUCCESS);
}

TEST_F(R16Qkey, LongerThanTheMtu) {
  Pair pair(a(), b(), spec());
  const u64 mtu = 128ULL << pair.a.info.port.active_mtu;
  ASSERT_EQ(pair.b.receive(1, 0, 16384).error, 0);
  ASSERT_EQ(pair.a.post(ud_wr(2, {pair.a.buffer.sge(0, mtu + 1)}, pair.a, pair.b)).error, 0);
  expect_wc(pair.a.sent(), 2, IBV_WC_LOC_LEN_ERR);
  EXPECT_TRUE(pair.b.received(1, silence(50)).empty());
}

// ---- Row 17

class R17NoReceive : public Datagrams {};

TEST_F(R17NoReceive, DroppedSilently) {
  Pair pair(a(), b(), spec());
  for (u64 i = 0; i < 5; ++i) ASSERT_EQ(pair.a.post(ud_wr(i, {pair.a.buffer.sge(0, 64)}, pair.a, pair.b)).error, 0);
  const auto sent = pair.a.sent(5);
  ASSERT_EQ(sent.size(), 5u);
  for (const ibv_wc& wc : sent) EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
  std::this_thread::sleep_for(std::chrono::milliseconds(silence(50)));
  ASSERT_EQ(pair.b.receive(1, 0, 512).error, 0);
  EXPECT_TRUE(pair.b.received(1, silence()).empty()) << "a dropped datagram must not come back";
  EXPECT_EQ(pair.b.state(), IBV_QPS_RTS);
  ASSERT_EQ(pair.a.post(ud_wr(9, {pair.a.buffer.sge(0, 64)}, pair.a, pair.b)).error, 0);
  expect_wc(pair.b.received(), 1, IBV_WC_SUCCESS);
}

TEST_F(R17NoReceive, QpThatNeverWas) {
  Pair pair(a(), b(), spec());
  Send send = ud_wr(1, {pair.a.buffer.sge(0, 64)}, pair.a, pair.b);
  send.remote_qpn = 0xfffff0;
  ASSERT_EQ(pair.a.post(send).error, 0);
  expect_wc(pair.a.sent(), 1, IBV_WC_SUCCESS);
}

TEST_F(R17NoReceive, QpOfAnotherService) {
  Pair rc(a(), b());
  Pair ud(a(), b(), spec());
  ASSERT_EQ(rc.b.receive(5, 0, 512).error, 0);
  Send send = ud_wr(1, {ud.a.buffer.sge(0, 64)}, ud.a, ud.b);
  send.remote_qpn = rc.b.qpn;
  ASSERT_EQ(ud.a.post(send).error, 0);
  expect_wc(ud.a.sent(), 1, IBV_WC_SUCCESS);
  EXPECT_TRUE(rc.b.received(1, silence(50)).empty());
  ASSERT_EQ(rc.a.post(send_wr(2, {rc.a.buffer.sge(0, 8)})).error, 0);
  expect_wc(rc.b.received(), 5, IBV_WC_SUCCESS);
}

TEST_F(R17NoReceive, PeerInInit) {
  Pair pair(a(), b(), spec());
  must(modify_state(pair.b, IBV_QPS_RESET), "RESET");
  must(modify(pair.b, to_init(pair.spec, pair.b.info)), "INIT");
  ASSERT_EQ(pair.b.receive(1, 0, 512).error, 0);
  ASSERT_EQ(pair.a.post(ud_wr(2, {pair.a.buffer.sge(0, 64)}, pair.a, pair.b)).error, 0);
  expect_wc(pair.a.sent(), 2, IBV_WC_SUCCESS);
  EXPECT_TRUE(pair.b.received(1, silence(50)).empty());
}

// One QP talks to many: each message goes where its own address says.
TEST_F(R17NoReceive, ManyPeers) {
  Pair first(a(), b(), spec());
  Pair second(a(), b(), spec());
  ASSERT_EQ(first.b.receive(1, 0, 512).error, 0);
  ASSERT_EQ(second.b.receive(2, 0, 512).error, 0);
  Send send = ud_wr(3, {first.a.buffer.sge(0, 64)}, first.a, first.b);
  send.remote_qpn = second.b.qpn;
  ASSERT_EQ(first.a.post({send, ud_wr(4, {first.a.buffer.sge(0, 64)}, first.a, first.b)}).error, 0);
  const auto wcs = second.b.received();
  expect_wc(wcs, 2, IBV_WC_SUCCESS);
  if (!wcs.empty()) EXPECT_EQ(wcs[0].src_qp, first.a.qpn);
  expect_wc(first.b.received(), 1, IBV_WC_SUCCESS);
}

}  // namespace
}  // namespace conformance
