// modify_qp and query_qp through Control: the rules themselves are tested in tests/rules.
#include "abi/rxe.h"
#include "control_fixture.h"
#include "hca/limits.h"
#include "hca/rules/bits.h"
#include "hca/rules/qp_transitions.h"

namespace softib::daemon {
namespace {

using hca::QpAttr;
using ipc::QpState;
using ipc::QpType;

class ControlQp : public ControlTest, public ::testing::WithParamInterface<QpType> {
 protected:
  ControlQp() : process_(start("host0")), c_(make_qp(process_, GetParam())) {}

  [[nodiscard]] QpState state() { return qp(c_.qpn).state; }
  int to(QpState next) { return modify(process_, c_.qpn, attributes_for(GetParam(), next)); }
  int to_bare(QpState next) {
    ipc::QpAttributes a{};
    a.mask = static_cast<u32>(QpAttr::state);
    a.qp_state = static_cast<u32>(next);
    return modify(process_, c_.qpn, a);
  }
  ipc::QpAttributes query() { return call<ipc::QueryQp>(process_, {c_.qpn})->attributes; }

  TestProcess process_;
  Connection c_;
};

INSTANTIATE_TEST_SUITE_P(Types, ControlQp, ::testing::Values(QpType::rc, QpType::uc, QpType::ud));

TEST_P(ControlQp, CreatedAsAskedFor) {
  auto request = qp_request(c_.pd, c_.cq, GetParam());
  request.caps = {100, 50, 4, 3, 300};
  request.sq_sig_all = 1;
  auto reply = call<ipc::CreateQp>(process_, request);
  ASSERT_TRUE(reply);
  EXPECT_GE(reply->qpn, hca::limits::first_qpn);
  EXPECT_EQ(reply->caps.max_send_wr, 127U);
  EXPECT_EQ(reply->caps.max_recv_wr, 63U);
  EXPECT_GE(reply->caps.max_inline, 300U);
  const ipc::Qp& record = qp(reply->qpn);
  EXPECT_EQ(record.qpn, reply->qpn);
  EXPECT_EQ(record.type, GetParam());
  EXPECT_EQ(record.state, QpState::reset);
  EXPECT_EQ(record.owner, process_.attached.slot);
  EXPECT_EQ(record.sq_ring, reply->sq_ring);
  EXPECT_EQ(record.rq_ring, reply->rq_ring);
  EXPECT_EQ(record.sq_mask, 127U);
  EXPECT_EQ(record.sq_sig_all, 1);
  EXPECT_GE(1U << record.sq_log2_size, sizeof(abi::SendWqe) + 300);
  EXPECT_GT(segment().header.qp_limit, reply->qpn);
  auto answer = call<ipc::QueryQp>(process_, {reply->qpn});
  EXPECT_EQ(answer->attributes.caps.max_send_wr, 127U);
  EXPECT_EQ(answer->sq_sig_all, 1U);
}

TEST_P(ControlQp, RefusedWhatCannotBe) {
  auto request = qp_request(c_.pd, c_.cq, GetParam());
  request.type = static_cast<QpType>(8);
  EXPECT_EQ(error_of<ipc::CreateQp>(process_, request), EOPNOTSUPP);
  request = qp_request(c_.pd, c_.cq, GetParam());
  request.create_flags = 2;
  EXPECT_EQ(error_of<ipc::CreateQp>(process_, request), EOPNOTSUPP);
  request = qp_request(c_.pd, c_.cq, GetParam());
  request.caps.max_send_wr = hca::limits::max_qp_wr + 1;
  EXPECT_EQ(error_of<ipc::CreateQp>(process_, request), EINVAL);
  request = qp_request(c_.pd, c_.cq, GetParam());
  request.srq = 17;
  EXPECT_EQ(error_of<ipc::CreateQp>(process_, request), EINVAL);
}

TEST_P(ControlQp, WholeLife) {
  for (QpState next : {QpState::init, QpState::rtr, QpState::rts}) {
    ASSERT_EQ(to(next), 0);
    EXPECT_EQ(state(), next);
  }
  ipc::QpAttributes a = query();
  EXPECT_EQ(a.qp_state, static_cast<u32>(QpState::rts));
  EXPECT_EQ(a.port_num, 1);
  EXPECT_EQ(a.sq_psn, 0x123456U);
  EXPECT_EQ(qp(c_.qpn).port, 1U);
  EXPECT_EQ(qp(c_.qpn).pkey, 0xffff);
  EXPECT_EQ(qp(c_.qpn).requester.next_psn, 0x123456U);
  if (GetParam() == QpType::ud) {
    EXPECT_EQ(a.qkey, 0x1234U);
    EXPECT_EQ(qp(c_.qpn).path_mtu, 4096U) << "the port's";
  } else {
    EXPECT_EQ(a.access_flags, 0xfU);
    EXPECT_EQ(a.path_mtu, 3U);
    EXPECT_EQ(a.dest_qp_num, 0x4567U);
    EXPECT_EQ(a.rq_psn, 0x1a2b3cU);
    EXPECT_EQ(qp(c_.qpn).path_mtu, 1024U);
    EXPECT_EQ(qp(c_.qpn).av.port, 2U) << "the path leads to host1";
    EXPECT_EQ(qp(c_.qpn).responder.expected_psn, 0x1a2b3cU);
  }
  if (GetParam() == QpType::rc) {
    EXPECT_EQ(a.timeout, 14);
    EXPECT_EQ(a.retry_count, 7);
    EXPECT_EQ(a.rnr_retry, 6);
    EXPECT_EQ(a.min_rnr_timer, 12);
    EXPECT_EQ(a.max_rd_atomic, 12);
    EXPECT_EQ(a.max_dest_rd_atomic, 12);
    EXPECT_EQ(qp(c_.qpn).requester.retries_left, 7U);
  }
  EXPECT_EQ(to_bare(QpState::err), 0);
  EXPECT_EQ(to_bare(QpState::rts), EINVAL);
  EXPECT_EQ(to_bare(QpState::reset), 0);
  a = query();
  EXPECT_EQ(a.port_num, 0);
  EXPECT_EQ(a.dest_qp_num, 0U);
  EXPECT_EQ(a.qkey, 0U);
  EXPECT_EQ(qp(c_.qpn).av.port, 0U);
  bring_to(process_, c_.qpn, GetParam(), QpState::rts);
}

// A refused change leaves everything as it was.
TEST_P(ControlQp, ARefusedChangeChangesNothing) {
  ASSERT_EQ(to(QpState::init), 0);
  ipc::Qp before{};
  std::memcpy(static_cast<void*>(&before), &qp(c_.qpn), sizeof before);
  auto a = attributes_for(GetParam(), QpState::rtr);
  a.mask |= static_cast<u32>(QpAttr::sq_psn);
  EXPECT_EQ(modify(process_, c_.qpn, a), EINVAL) << "sq_psn has no place in RTR";
  EXPECT_EQ(to(QpState::rts), EINVAL) << "RTR was left out";
  a = attributes_for(GetParam(), QpState::init);
  a.pkey_index = 500;
  EXPECT_EQ(modify(process_, c_.qpn, a), EINVAL);
  a = attributes_for(GetParam(), QpState::init);
  a.port_num = 2;
  EXPECT_EQ(modify(process_, c_.qpn, a), EINVAL);
  if (GetParam() != QpType::ud) {
    a = attributes_for(GetParam(), QpState::rtr);
    a.path_mtu = 6;
    EXPECT_EQ(modify(process_, c_.qpn, a), EINVAL);
    a = attributes_for(GetParam(), QpState::rtr);
    a.av.dlid = 0;
    EXPECT_EQ(modify(process_, c_.qpn, a), EINVAL);
  }
  EXPECT_EQ(std::memcmp(&before, &qp(c_.qpn), sizeof before), 0);
}

TEST_P(ControlQp, Draining) {
  bring_to(process_, c_.qpn, GetParam(), QpState::rts);
  auto a = attributes_for(GetParam(), QpState::sqd);
  ASSERT_EQ(modify(process_, c_.qpn, a), 0);
  EXPECT_EQ(query().sq_draining, 1);
  EXPECT_EQ(to_bare(QpState::rts), EINVAL) << "not drained yet";
  qp(c_.qpn).sq_draining = 0;  // as the owner's engine does
  EXPECT_EQ(query().sq_draining, 0);
  EXPECT_EQ(to_bare(QpState::rts), 0);
  EXPECT_EQ(qp(c_.qpn).requester.next_psn, 0x123456U) << "goes on where it was";
}

TEST_P(ControlQp, TheDataPathMayHaveTakenItToError) {
  bring_to(process_, c_.qpn, GetParam(), QpState::rts);
  qp(c_.qpn).state = QpState::err;
  EXPECT_EQ(to_bare(QpState::sqd), EINVAL);
  EXPECT_EQ(query().qp_state, static_cast<u32>(QpState::err));
  EXPECT_EQ(to_bare(QpState::err), 0);
  EXPECT_EQ(to_bare(QpState::reset), 0);
}

TEST_P(ControlQp, SendQueueError) {
  bring_to(process_, c_.qpn, GetParam(), QpState::rts);
  qp(c_.qpn).state = QpState::sqe;
  EXPECT_EQ(to_bare(QpState::rts), GetParam() == QpType::rc ? EINVAL : 0);
}

TEST_P(ControlQp, CurrentStateMustBeTheCurrentState) {
  bring_to(process_, c_.qpn, GetParam(), QpState::rts);
  auto a = ipc::QpAttributes{};
  a.mask = static_cast<u32>(QpAttr::cur_state);
  a.cur_qp_state = static_cast<u32>(QpState::rts);
  EXPECT_EQ(modify(process_, c_.qpn, a), 0);
  a.cur_qp_state = static_cast<u32>(QpState::sqd);
  EXPECT_EQ(modify(process_, c_.qpn, a), EINVAL);
}

TEST_P(ControlQp, Destroyed) {
  u32 qpn = c_.qpn;
  EXPECT_EQ(error_of<ipc::DestroyQp>(process_, {qpn}), 0);
  EXPECT_EQ(qp(qpn).state, QpState::destroyed);
  EXPECT_EQ(qp(qpn).generation, 0U);
  EXPECT_EQ(to_bare(QpState::reset), EINVAL);
  settle();
  Connection next = make_qp(process_, GetParam());
  EXPECT_NE(next.qpn, qpn) << "a QPN rests before it comes back";
}

class ControlAlternatePath : public ControlTest {
 protected:
  ControlAlternatePath() : process_(start("host0")), c_(make_qp(process_)) {
    bring_to(process_, c_.qpn, QpType::rc, QpState::rts);
  }
  int set(QpAttr mask, u32 migration, u16 dlid = 0) {
    ipc::QpAttributes a{};
    a.mask = static_cast<u32>(mask);
    a.path_mig_state = migration;
    a.alt_port_num = a.alt_av.port_num = 1;
    a.alt_av.dlid = dlid;
    a.alt_timeout = 9;
    return modify(process_, c_.qpn, a);
  }
  TestProcess process_;
  Connection c_;
};

TEST_F(ControlAlternatePath, IsKeptAndTaken) {
  EXPECT_EQ(set(QpAttr::path_mig_state, 1), EINVAL) << "nothing to re-arm";
  EXPECT_EQ(set(QpAttr::alt_path | QpAttr::path_mig_state, 1, 0x77), 0);
  auto a = call<ipc::QueryQp>(process_, {c_.qpn})->attributes;
  EXPECT_EQ(a.path_mig_state, 2U);
  EXPECT_EQ(a.alt_av.dlid, 0x77);
  EXPECT_EQ(a.alt_timeout, 9);
  EXPECT_EQ(set(QpAttr::path_mig_state, 0), 0);
  a = call<ipc::QueryQp>(process_, {c_.qpn})->attributes;
  EXPECT_EQ(a.path_mig_state, 0U);
  EXPECT_EQ(a.av.dlid, 0x77);
  EXPECT_EQ(qp(c_.qpn).av.port, 0U) << "nobody is there";
  EXPECT_EQ(a.timeout, 9);
}

TEST_F(ControlEthernet, RtrNeedsAGrh) {
  TestProcess process = start("host0");
  Connection c = make_qp(process);
  ASSERT_EQ(modify(process, c.qpn, attributes_for(QpType::rc, QpState::init)), 0);
  auto a = attributes_for(QpType::rc, QpState::rtr);
  a.av.is_global = 0;
  a.av.dlid = 1;
  EXPECT_EQ(modify(process, c.qpn, a), EINVAL);
  a = attributes_for(QpType::rc, QpState::rtr);
  a.av.sgid_index = ipc::max_gids_per_port;
  EXPECT_EQ(modify(process, c.qpn, a), EINVAL);
  EXPECT_EQ(qp(c.qpn).state, QpState::init);
  EXPECT_EQ(modify(process, c.qpn, attributes_for(QpType::rc, QpState::rtr)), 0);
  EXPECT_EQ(qp(c.qpn).av.port, 2U);
}

}  // namespace
}  // namespace softib::daemon
