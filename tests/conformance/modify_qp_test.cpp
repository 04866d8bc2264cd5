// Rows 5 and 11: the transitions of a QP, and its path MTU.
//
// The table restates InfiniBand Architecture Specification volume 1, section 11.2.5.2 (Modify Queue Pair) with what
// Linux makes of it for all devices (ib_modify_qp_is_ok).
#include <map>
#include <optional>

#include "support.h"

namespace conformance {
namespace {

struct Masks {
  i32 required = 0;
  i32 optional = 0;
};

using Transition = std::pair<ibv_qp_state, ibv_qp_state>;
using Transitions = std::map<Transition, Masks>;

constexpr i32 cur = IBV_QP_CUR_STATE, access_flags = IBV_QP_ACCESS_FLAGS, alt = IBV_QP_ALT_PATH,
              mig = IBV_QP_PATH_MIG_STATE, pkey = IBV_QP_PKEY_INDEX, port = IBV_QP_PORT, qkey = IBV_QP_QKEY,
              rnr_timer = IBV_QP_MIN_RNR_TIMER, av = IBV_QP_AV, rd_atomic = IBV_QP_MAX_QP_RD_ATOMIC,
              dest_rd_atomic = IBV_QP_MAX_DEST_RD_ATOMIC, sq_psn = IBV_QP_SQ_PSN,
              timers = IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY,
              path = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;

// To RESET and to ERR from anywhere (but not from RESET to ERR), with no attribute.
void add_exits(Transitions* table) {
  for (const ibv_qp_state from :
       {IBV_QPS_RESET, IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS, IBV_QPS_SQD, IBV_QPS_SQE, IBV_QPS_ERR}) {
    (*table)[{from, IBV_QPS_RESET}] = {};
    if (from != IBV_QPS_RESET) (*table)[{from, IBV_QPS_ERR}] = {};
  }
}

Transitions connected(bool rc) {
  const i32 only_rc = rc ? rnr_timer : 0;
  Transitions table = {
      {{IBV_QPS_RESET, IBV_QPS_INIT}, {pkey | port | access_flags, 0}},
      {{IBV_QPS_INIT, IBV_QPS_INIT}, {0, pkey | port | access_flags}},
      {{IBV_QPS_INIT, IBV_QPS_RTR}, {path | (rc ? dest_rd_atomic | rnr_timer : 0), alt | access_flags | pkey}},
      {{IBV_QPS_RTR, IBV_QPS_RTS}, {sq_psn | (rc ? timers | rd_atomic : 0), cur | alt | access_flags | mig | only_rc}},
      {{IBV_QPS_RTS, IBV_QPS_RTS}, {0, cur | access_flags | alt | mig | only_rc}},
      {{IBV_QPS_RTS, IBV_QPS_SQD}, {0, IBV_QP_EN_SQD_ASYNC_NOTIFY}},
      {{IBV_QPS_SQD, IBV_QPS_RTS}, {0, cur | alt | access_flags | mig | only_rc}},
      {{IBV_QPS_SQD, IBV_QPS_SQD},
       // IBTA lets UC change AV here too, but ib_uverbs adds PORT to AV, and UC may not change that: EINVAL on all
       // devices.
       {0, alt | access_flags | pkey | mig | (rc ? av | port | timers | rd_atomic | dest_rd_atomic | rnr_timer : 0)}},
  };
  if (!rc) table[{IBV_QPS_SQE, IBV_QPS_RTS}] = {0, cur | access_flags};
  add_exits(&table);
  return table;
}

Transitions datagram() {
  Transitions table = {
      {{IBV_QPS_RESET, IBV_QPS_INIT}, {pkey | port | qkey, 0}},
      {{IBV_QPS_INIT, IBV_QPS_INIT}, {0, pkey | port | qkey}},
      {{IBV_QPS_INIT, IBV_QPS_RTR}, {0, pkey | qkey}},
      {{IBV_QPS_RTR, IBV_QPS_RTS}, {sq_psn, cur | qkey}},
      {{IBV_QPS_RTS, IBV_QPS_RTS}, {0, cur | qkey}},
      {{IBV_QPS_RTS, IBV_QPS_SQD}, {0, IBV_QP_EN_SQD_ASYNC_NOTIFY}},
      {{IBV_QPS_SQD, IBV_QPS_RTS}, {0, cur | qkey}},
      {{IBV_QPS_SQD, IBV_QPS_SQD}, {0, pkey | qkey}},
      {{IBV_QPS_SQE, IBV_QPS_RTS}, {0, cur | qkey}},
  };
  add_exits(&table);
  return table;
}

Transitions table_of(ibv_qp_type type) { return type == IBV_QPT_UD ? datagram() : connected(type == IBV_QPT_RC); }

const char* state_name(ibv_qp_state state) {
  static const char* const names[] = {"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"};
  return state <= IBV_QPS_ERR ? names[state] : "?";
}

const std::map<i32, const char*> attribute_names = {{IBV_QP_CUR_STATE, "CUR_STATE"},
                                                    {IBV_QP_EN_SQD_ASYNC_NOTIFY, "EN_SQD_ASYNC_NOTIFY"},
                                                    {IBV_QP_ACCESS_FLAGS, "ACCESS_FLAGS"},
                                                    {IBV_QP_PKEY_INDEX, "PKEY_INDEX"},
                                                    {IBV_QP_PORT, "PORT"},
                                                    {IBV_QP_QKEY, "QKEY"},
                                                    {IBV_QP_AV, "AV"},
                                                    {IBV_QP_PATH_MTU, "PATH_MTU"},
                                                    {IBV_QP_TIMEOUT, "TIMEOUT"},
                                                    {IBV_QP_RETRY_CNT, "RETRY_CNT"},
                                                    {IBV_QP_RNR_RETRY, "RNR_RETRY"},
                                                    {IBV_QP_RQ_PSN, "RQ_PSN"},
                                                    {IBV_QP_MAX_QP_RD_ATOMIC, "MAX_QP_RD_ATOMIC"},
                                                    {IBV_QP_ALT_PATH, "ALT_PATH"},
                                                    {IBV_QP_MIN_RNR_TIMER, "MIN_RNR_TIMER"},
                                                    {IBV_QP_SQ_PSN, "SQ_PSN"},
                                                    {IBV_QP_MAX_DEST_RD_ATOMIC, "MAX_DEST_RD_ATOMIC"},
                                                    {IBV_QP_PATH_MIG_STATE, "PATH_MIG_STATE"},
                                                    {IBV_QP_CAP, "CAP"},
                                                    {IBV_QP_DEST_QPN, "DEST_QPN"},
                                                    {IBV_QP_RATE_LIMIT, "RATE_LIMIT"}};

class R05Transitions : public Conformance, public testing::WithParamInterface<ibv_qp_type> {
 protected:
  void SetUp() override {
    Spec spec;
    spec.type = GetParam();
    spec.connect = false;
    pair_ = std::make_unique<Pair>(a(), b(), spec);
    table_ = table_of(GetParam());
  }

  // Every attribute with a value that is fine in itself: only the mask decides.
  ibv_qp_attr good(ibv_qp_state from, ibv_qp_state to) const {
    const Pair& p = *pair_;
    ibv_qp_attr attr = to_rtr(connected_spec(), p.a.info, p.b.info, p.b.qpn).attr;
    attr.qp_state = to;
    attr.cur_qp_state = from;
    attr.qp_access_flags = all_access;
    attr.port_num = p.a.info.port_num;
    attr.qkey = default_qkey;
    attr.alt_ah_attr = attr.ah_attr;
    attr.alt_port_num = attr.port_num;
    attr.alt_timeout = 14;
    attr.path_mig_state = IBV_MIG_REARM;
    attr.timeout = 14;
    attr.retry_cnt = attr.rnr_retry = 7;
    attr.max_rd_atomic = 1;
    attr.sq_psn = first_psn;
    attr.cap = p.a.cap;
    return attr;
  }
  Spec connected_spec() const {
    Spec spec = pair_->spec;
    spec.type = IBV_QPT_RC;
    return spec;
  }

  int step(ibv_qp_state from, ibv_qp_state to, i32 mask) {
    return a().modify_qp(pair_->a.qp, good(from, to), mask | IBV_QP_STATE);
  }

  // SQE is where an error of a send leaves a UC or UD QP: there is no other way to it.
  bool fall_into_sqe() {
    const Node& node = pair_->a;
    Send bad = send_wr(1, {{node.buffer.address, 8, 0xbad000}});
    if (GetParam() == IBV_QPT_UD) {
      if (pair_->a.ah == 0) pair_->a.ah = a().create_ah(node.pd, address_to(node.info, pair_->b.info, false)).id;
      bad = ud_wr(1, bad.sges, node, pair_->b);
    }
    if (node.post(bad).error != 0) return false;
    node.sent();
    return node.state_becomes(IBV_QPS_SQE) == IBV_QPS_SQE;
  }

  bool bring_to(ibv_qp_state state) {
    if (step(IBV_QPS_RESET, IBV_QPS_RESET, 0) != 0) return false;
    static const ibv_qp_state way[] = {IBV_QPS_RESET, IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS};
    const bool beyond = state > IBV_QPS_RTS;
    for (int i = 0; i + 1 < 4 && (beyond || way[i] < state); ++i) {
      if (step(way[i], way[i + 1], table_.at({way[i], way[i + 1]}).required) != 0) return false;
    }
    if (state == IBV_QPS_SQE) return fall_into_sqe();
    return !beyond || step(IBV_QPS_RTS, state, 0) == 0;
  }

  std::vector<ibv_qp_state> states() const {
    std::vector<ibv_qp_state> all = {IBV_QPS_RESET, IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS, IBV_QPS_SQD, IBV_QPS_ERR};
    if (GetParam() != IBV_QPT_RC) all.push_back(IBV_QPS_SQE);
    return all;
  }

  // Tries a step that must be refused: errno EINVAL and the state as it was.
  void refused(ibv_qp_state from, ibv_qp_state to, i32 mask, const std::string& why, Differences* differences) {
    differences->checked();
    const std::string title = std::string(state_name(from)) + " to " + state_name(to) + ", " + why;
    if (!bring_to(from)) return differences->add(title + ": the starting state was not reached");
    const int error = step(from, to, mask);
    const bool extended = (mask & IBV_QP_RATE_LIMIT) && error == EOPNOTSUPP;  // a driver without rate limits says so
    if (error != EINVAL && !extended) differences->add(title + ": errno " + std::to_string(error));
    if (pair_->a.state() != from) differences->add(title + ": the state became " + state_name(pair_->a.state()));
  }

  // ib_core lets no device migrate paths on Ethernet.
  bool has_alternate_paths() {
    return (pair_->a.info.device.device_cap_flags & IBV_DEVICE_AUTO_PATH_MIG) && !pair_->a.info.ethernet;
  }

  std::unique_ptr<Pair> pair_;
  Transitions table_;
};

TEST_P(R05Transitions, LegalWithRequired) {
  Differences differences;
  for (const auto& [way, masks] : table_) {
    if (way.first == IBV_QPS_SQE) continue;  // SqeToRts
    differences.checked();
    const std::string title = std::string(state_name(way.first)) + " to " + state_name(way.second);
    if (!bring_to(way.first)) {
      differences.add(title + ": the starting state was not reached");
      continue;
    }
    const int error = step(way.first, way.second, masks.required);
    if (error != 0) differences.add(title + ": errno " + std::to_string(error));
    if (pair_->a.state() != way.second) differences.add(title + ": the state is " + state_name(pair_->a.state()));
  }
}

TEST_P(R05Transitions, LegalWithEachOptional) {
  Differences differences;
  for (const auto& [way, masks] : table_) {
    if (way.first == IBV_QPS_SQE) continue;
    for (const auto& [bit, name] : attribute_names) {
      if (!(masks.optional & bit)) continue;
      if ((bit & (IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE)) && !has_alternate_paths()) continue;
      differences.checked();
      const std::string title = std::string(state_name(way.first)) + " to " + state_name(way.second) + " with " + name;
      if (!bring_to(way.first)) {
        differences.add(title + ": the starting state was not reached");
        continue;
      }
      const int error = step(way.first, way.second, masks.required | bit);
      if (error != 0) differences.add(title + ": errno " + std::to_string(error));
      if (pair_->a.state() != way.second) differences.add(title + ": the state is " + state_name(pair_->a.state()));
    }
  }
}

TEST_P(R05Transitions, EachRequiredMissing) {
  Differences differences;
  for (const auto& [way, masks] : table_) {
    for (const auto& [bit, name] : attribute_names) {
      if (masks.required & bit)
        refused(way.first, way.second, masks.required & ~bit, std::string("without ") + name, &differences);
    }
  }
}

TEST_P(R05Transitions, EachForeignPresent) {
  Differences differences;
  for (const auto& [way, masks] : table_) {
    if (way.first == IBV_QPS_SQE) continue;
    for (const auto& [bit, name] : attribute_names) {
      if ((masks.required | masks.optional) & bit) continue;
      refused(way.first, way.second, masks.required | bit, std::string("with foreign ") + name, &differences);
    }
  }
}

TEST_P(R05Transitions, EachIllegalPair) {
  Differences differences;
  for (const ibv_qp_state from : states()) {
    if (from == IBV_QPS_SQE) continue;
    for (const ibv_qp_state to :
         {IBV_QPS_RESET, IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS, IBV_QPS_SQD, IBV_QPS_SQE, IBV_QPS_ERR}) {
      if (table_.contains({from, to})) continue;
      i32 usual = 0;  // what the step to that state takes elsewhere
      for (const auto& [way, masks] : table_) {
        if (way.second == to) usual |= masks.required;
      }
      refused(from, to, usual, "illegal, with the usual attributes", &differences);
      refused(from, to, 0, "illegal, with none", &differences);
    }
  }
}

// Without IBV_QP_STATE the QP stays where it is and only attributes change.
TEST_P(R05Transitions, WithoutAState) {
  ASSERT_TRUE(bring_to(IBV_QPS_RTS));
  const i32 bit = GetParam() == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS;
  EXPECT_EQ(a().modify_qp(pair_->a.qp, good(IBV_QPS_RTS, IBV_QPS_RTS), bit), 0);
  EXPECT_EQ(a().modify_qp(pair_->a.qp, good(IBV_QPS_RTS, IBV_QPS_RTS), IBV_QP_PATH_MTU), EINVAL);
  EXPECT_EQ(pair_->a.state(), IBV_QPS_RTS);
}

// IBTA 11.2.5.2: when the consumer's idea of the current state is wrong, the request is refused.
TEST_P(R05Transitions, WrongCurrentState) {
  ASSERT_TRUE(bring_to(IBV_QPS_RTR));
  ibv_qp_attr attr = good(IBV_QPS_SQD, IBV_QPS_RTS);
  EXPECT_EQ(a().modify_qp(pair_->a.qp, attr, IBV_QP_STATE | IBV_QP_CUR_STATE), EINVAL);
  EXPECT_EQ(pair_->a.state(), IBV_QPS_RTR);
}

TEST_P(R05Transitions, SqeToRts) {
  if (GetParam() == IBV_QPT_RC) GTEST_SKIP() << "an RC QP has no SQE state";
  ASSERT_TRUE(bring_to(IBV_QPS_SQE)) << "a send error left the QP in " << state_name(pair_->a.state())
                                     << ", not in SQE";
  for (const ibv_qp_state to : {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_SQD})
    EXPECT_EQ(step(IBV_QPS_SQE, to, 0), EINVAL) << state_name(to);
  EXPECT_EQ(step(IBV_QPS_SQE, IBV_QPS_RTS, IBV_QP_PATH_MTU), EINVAL);
  EXPECT_EQ(step(IBV_QPS_SQE, IBV_QPS_RTS, IBV_QP_CUR_STATE), 0);
  EXPECT_EQ(pair_->a.state(), IBV_QPS_RTS);
}

// Receiving goes on in SQE, sends are flushed.
TEST_P(R05Transitions, SqeStillReceives) {
  if (GetParam() == IBV_QPT_RC) GTEST_SKIP() << "an RC QP has no SQE state";
  ASSERT_TRUE(bring_to(IBV_QPS_SQE)) << "a send error left the QP in " << state_name(pair_->a.state())
                                     << ", not in SQE";
  Pair& p = *pair_;
  ASSERT_EQ(p.a.receive(1, 0, 512).error, 0);
  Spec spec = p.spec;
  must(modify(p.b, to_init(spec, p.b.info)), "INIT");
  must(modify(p.b, to_rtr(spec, p.b.info, p.a.info, p.a.qpn)), "RTR");
  must(modify(p.b, to_rts(spec)), "RTS");
  Send send = send_wr(2, {p.b.buffer.sge(0, 8)});
  if (GetParam() == IBV_QPT_UD) {
    p.b.ah = b().create_ah(p.b.pd, address_to(p.b.info, p.a.info, false)).id;
    send = ud_wr(2, send.sges, p.b, p.a);
  }
  ASSERT_EQ(p.b.post(send).error, 0);
  expect_wc(p.a.received(), 1, IBV_WC_SUCCESS);
  ASSERT_EQ(p.a.post(GetParam() == IBV_QPT_UD ? ud_wr(3, {p.a.buffer.sge(0, 8)}, p.a, p.b)
                                              : send_wr(3, {p.a.buffer.sge(0, 8)}))
                .error,
            0);
  expect_wc(p.a.sent(), 3, IBV_WC_WR_FLUSH_ERR);
}

struct BadValue {
  const char* name;
  i32 bit;
  ibv_qp_state from;
  void (*spoil)(ibv_qp_attr*, const Info&);
};

// Values that no device can take, each in an otherwise right step.
TEST_P(R05Transitions, ValuesOutOfRange) {
  using A = ibv_qp_attr;
  const BadValue values[] = {
      {"port 0", port, IBV_QPS_RESET, [](A* x, const Info&) { x->port_num = 0; }},
      {"port 255", port, IBV_QPS_RESET, [](A* x, const Info&) { x->port_num = 255; }},
      {"pkey_index beyond the table", pkey, IBV_QPS_RESET,
       [](A* x, const Info& i) { x->pkey_index = i.port.pkey_tbl_len; }},
      {"path_mtu 0", IBV_QP_PATH_MTU, IBV_QPS_INIT, [](A* x, const Info&) { x->path_mtu = static_cast<ibv_mtu>(0); }},
      {"path_mtu 6", IBV_QP_PATH_MTU, IBV_QPS_INIT, [](A* x, const Info&) { x->path_mtu = static_cast<ibv_mtu>(6); }},
      {"max_dest_rd_atomic", dest_rd_atomic, IBV_QPS_INIT,
       [](A* x, const Info& i) {
         x->max_dest_rd_atomic = static_cast<u8>(std::min(255, i.device.max_qp_rd_atom + 1));
       }},
      {"ah port 200", av, IBV_QPS_INIT, [](A* x, const Info&) { x->ah_attr.port_num = 200; }},
      {"min_rnr_timer 32", rnr_timer, IBV_QPS_INIT, [](A* x, const Info&) { x->min_rnr_timer = 32; }},
      {"max_rd_atomic", rd_atomic, IBV_QPS_RTR,
       [](A* x, const Info& i) {
         x->max_rd_atomic = static_cast<u8>(std::min(255, i.device.max_qp_init_rd_atom + 1));
       }},
      {"timeout 32", IBV_QP_TIMEOUT, IBV_QPS_RTR, [](A* x, const Info&) { x->timeout = 32; }},
      {"retry_cnt 8", IBV_QP_RETRY_CNT, IBV_QPS_RTR, [](A* x, const Info&) { x->retry_cnt = 8; }},
      {"rnr_retry 8", IBV_QP_RNR_RETRY, IBV_QPS_RTR, [](A* x, const Info&) { x->rnr_retry = 8; }},
  };
  Differences differences;
  for (const BadValue& value : values) {
    const auto to = static_cast<ibv_qp_state>(value.from + 1);
    const i32 required = table_.at({value.from, to}).required;
    if (!(required & value.bit)) continue;
    differences.checked();
    if (!bring_to(value.from)) return differences.add("the starting state was not reached");
    ibv_qp_attr attr = good(value.from, to);
    value.spoil(&attr, pair_->a.info);
    const int error = a().modify_qp(pair_->a.qp, attr, required | IBV_QP_STATE);
    if (error != EINVAL) differences.add(std::string(value.name) + ": errno " + std::to_string(error));
    if (pair_->a.state() != value.from) differences.add(std::string(value.name) + ": the state changed");
  }
}

TEST_P(R05Transitions, QueryGivesBackWhatWasSet) {
  ASSERT_TRUE(bring_to(IBV_QPS_RTS));
  const ibv_qp_attr want = good(IBV_QPS_RTS, IBV_QPS_RTS);
  const ibv_qp_attr seen = a().query_qp(pair_->a.qp);
  EXPECT_EQ(seen.qp_state, IBV_QPS_RTS);
  EXPECT_EQ(seen.cur_qp_state, IBV_QPS_RTS);
  EXPECT_EQ(seen.port_num, want.port_num);
  EXPECT_EQ(seen.sq_psn, want.sq_psn);
  EXPECT_GE(seen.cap.max_send_wr, pair_->spec.cap.max_send_wr);
  if (GetParam() == IBV_QPT_UD) {
    EXPECT_EQ(seen.qkey, want.qkey);
    return;
  }
  EXPECT_EQ(seen.path_mtu, want.path_mtu);
  EXPECT_EQ(seen.dest_qp_num, want.dest_qp_num);
  EXPECT_EQ(seen.rq_psn, want.rq_psn);
  EXPECT_EQ(seen.qp_access_flags & all_access & ~1u,
            want.qp_access_flags & ~1u);  // LOCAL_WRITE is not an access of a QP
  EXPECT_EQ(seen.ah_attr.is_global, want.ah_attr.is_global);
  if (!want.ah_attr.is_global) EXPECT_EQ(seen.ah_attr.dlid, want.ah_attr.dlid);
  if (GetParam() != IBV_QPT_RC) return;
  EXPECT_EQ(seen.timeout, want.timeout);
  EXPECT_EQ(seen.retry_cnt, want.retry_cnt);
  EXPECT_EQ(seen.rnr_retry, want.rnr_retry);
  EXPECT_EQ(seen.min_rnr_timer, want.min_rnr_timer);
  EXPECT_GE(seen.max_rd_atomic, want.max_rd_atomic);
  EXPECT_GE(seen.max_dest_rd_atomic, want.max_dest_rd_atomic);
}

INSTANTIATE_TEST_SUITE_P(Types, R05Transitions, testing::Values(IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD),
                         [](const auto& test) {
                           return test.param == IBV_QPT_RC ? "Rc" : test.param == IBV_QPT_UC ? "Uc" : "Ud";
                         });

class R05Drain : public Conformance {};

// SQD with notification: IBV_EVENT_SQ_DRAINED once the requests under way are done.
TEST_F(R05Drain, SqDrainedEvent) {
  Spec spec;
  spec.min_rnr_timer = 16;  // 2.6 ms
  Pair pair(a(), b(), spec);
  ASSERT_EQ(pair.a.post(send_wr(1, {pair.a.buffer.sge(0, 8)})).error, 0);
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_SQD;
  attr.en_sqd_async_notify = 1;
  ASSERT_EQ(a().modify_qp(pair.a.qp, attr, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY), 0);
  ASSERT_EQ(pair.b.receive(2, 0, 8).error, 0);
  const Event event = wait_for(a(), IBV_EVENT_SQ_DRAINED);
  ASSERT_FALSE(event.none) << "no IBV_EVENT_SQ_DRAINED";
  EXPECT_EQ(event.object, pair.a.qp);
}

TEST_F(R05Drain, NoEventUnlessAskedFor) {
  Pair pair(a(), b());
  ASSERT_EQ(modify_state(pair.a, IBV_QPS_SQD), 0);
  EXPECT_TRUE(wait_for(a(), IBV_EVENT_SQ_DRAINED, silence()).none);
}

TEST_F(R05Drain, TrafficAfterDrainAndReturn) {
  Pair pair(a(), b());
  for (int i = 0; i < 3; ++i) {
    expect_traffic(pair);
    ASSERT_EQ(modify_state(pair.a, IBV_QPS_SQD), 0);
    ASSERT_EQ(modify_state(pair.a, IBV_QPS_RTS), 0);
  }
  expect_traffic(pair);
}

// ---- Row 11

class R11Mtu : public Conformance {};

u64 bytes_of(ibv_mtu mtu) { return 128ULL << mtu; }

TEST_F(R11Mtu, LargerThanThePortsIsRefused) {
  Spec spec;
  spec.connect = false;
  Pair pair(a(), b(), spec);
  if (pair.a.info.port.active_mtu == IBV_MTU_4096) GTEST_SKIP() << "the port does the largest MTU there is";
  must(modify(pair.a, to_init(spec, pair.a.info)), "INIT");
  Step step = to_rtr(pair.spec, pair.a.info, pair.b.info, pair.b.qpn);
  step.attr.path_mtu = static_cast<ibv_mtu>(pair.a.info.port.active_mtu + 1);
  EXPECT_EQ(modify(pair.a, step), EINVAL);
  EXPECT_EQ(pair.a.state(), IBV_QPS_INIT);
}

TEST_F(R11Mtu, EverySmallerOneWorks) {
  const ibv_mtu most = std::min(a().info().port.active_mtu, b().info().port.active_mtu);
  for (int mtu = IBV_MTU_256; mtu <= most; ++mtu) {
    for (const ibv_qp_type type : {IBV_QPT_RC, IBV_QPT_UC}) {
      SCOPED_TRACE("mtu " + std::to_string(mtu) + " type " + std::to_string(type));
      Spec spec;
      spec.type = type;
      spec.mtu = static_cast<ibv_mtu>(mtu);
      Pair pair(a(), b(), spec);
      const u64 size = 3 * bytes_of(spec.mtu) + 1;
      a().fill(pair.a.buffer.address, size, 2);
      ASSERT_EQ(pair.b.receive(1, 0, 65536).error, 0);
      ASSERT_EQ(pair.a.post(send_wr(2, {pair.a.buffer.sge(0, size)})).error, 0);
      expect_wc(pair.a.sent(), 2, IBV_WC_SUCCESS);
      expect_wc(pair.b.received(), 1, IBV_WC_SUCCESS);
      EXPECT_EQ(b().mismatch(pair.b.buffer.address, size, 2), -1);
    }
  }
}

// Ends that disagree: short messages pass, longer ones end in an error completion, never in silence or in a success.
void unequal(ibv_mtu mtu_a, ibv_mtu mtu_b, ibv_wr_opcode opcode) {
  Spec spec;
  spec.connect = false;
  spec.timeout = 14;
  spec.retry = 2;
  Pair pair(end_a(), end_b(), spec);
  Spec spec_a = pair.spec;
  Spec spec_b = pair.spec;
  spec_a.mtu = mtu_a;
  spec_b.mtu = mtu_b;
  must(modify(pair.a, to_init(spec_a, pair.a.info)), "INIT");
  must(modify(pair.b, to_init(spec_b, pair.b.info)), "INIT");
  must(modify(pair.a, to_rtr(spec_a, pair.a.info, pair.b.info, pair.b.qpn)), "RTR");
  must(modify(pair.b, to_rtr(spec_b, pair.b.info, pair.a.info, pair.a.qpn)), "RTR");
  must(modify(pair.a, to_rts(spec_a)), "RTS");
  must(modify(pair.b, to_rts(spec_b)), "RTS");
  expect_traffic(pair);
  const u64 size = 3 * bytes_of(std::max(mtu_a, mtu_b));
  ASSERT_EQ(pair.b.receive(1, 0, 65536).error, 0);
  ASSERT_EQ(
      pair.a.post(rdma_wr(2, opcode, {pair.a.buffer.sge(0, size)}, pair.b.buffer.address, pair.b.buffer.rkey)).error,
      0);
  const ibv_wc_status status = status_of(pair.a.sent(1, patience(20000)));
  EXPECT_NE(status, IBV_WC_SUCCESS) << "the adapter cut and joined packets of different sizes";
  EXPECT_NE(status, IBV_WC_GENERAL_ERR);
}

TEST_F(R11Mtu, SenderLargerSend) { unequal(IBV_MTU_1024, IBV_MTU_256, IBV_WR_SEND); }
TEST_F(R11Mtu, SenderLargerWrite) { unequal(IBV_MTU_1024, IBV_MTU_256, IBV_WR_RDMA_WRITE); }
TEST_F(R11Mtu, SenderLargerRead) { unequal(IBV_MTU_1024, IBV_MTU_256, IBV_WR_RDMA_READ); }
TEST_F(R11Mtu, ReceiverLargerSend) { unequal(IBV_MTU_256, IBV_MTU_1024, IBV_WR_SEND); }
TEST_F(R11Mtu, ReceiverLargerWrite) { unequal(IBV_MTU_256, IBV_MTU_1024, IBV_WR_RDMA_WRITE); }
TEST_F(R11Mtu, ReceiverLargerRead) { unequal(IBV_MTU_256, IBV_MTU_1024, IBV_WR_RDMA_READ); }

}  // namespace
}  // namespace conformance
