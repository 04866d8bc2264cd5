// Rows 13 and 14: GIDs on Ethernet, and partitions.
#include "support.h"

namespace conformance {
namespace {

class R13Gid : public Conformance {
 protected:
  void SetUp() override {
    if (!a().info().ethernet) GTEST_SKIP() << "the port's link layer is InfiniBand";
  }

  // INIT to RTR with a changed address; gives the errno and checks that the state is as it should be.
  int try_rtr(ibv_qp_type type, void (*change)(ibv_ah_attr*, const Info&)) {
    Spec spec;
    spec.type = type;
    spec.connect = false;
    Pair pair(a(), b(), spec);
    must(modify(pair.a, to_init(spec, pair.a.info)), "INIT");
    Step step = to_rtr(pair.spec, pair.a.info, pair.b.info, pair.b.qpn);
    change(&step.attr.ah_attr, pair.a.info);
    const int error = modify(pair.a, step);
    EXPECT_EQ(pair.a.state(), error == 0 ? IBV_QPS_RTR : IBV_QPS_INIT);
    return error;
  }

  // For a GID index that does not exist ib_core has its own errno, before any driver is asked: ENODATA.
  static bool refusal(int error) { return error == EINVAL || error == ENODATA; }

  void refused(void (*change)(ibv_ah_attr*, const Info&)) {
    EXPECT_PRED1(refusal, try_rtr(IBV_QPT_RC, change));
    EXPECT_PRED1(refusal, try_rtr(IBV_QPT_UC, change));
    const Info info = a().info();
    ibv_ah_attr attr = address_to(info, b().info(), true);
    change(&attr, info);
    const Made ah = a().create_ah(a().alloc_pd().id, attr);
    EXPECT_EQ(ah.id, 0u);
    EXPECT_PRED1(refusal, ah.error);
  }
};

TEST_F(R13Gid, WithoutAGrh) {
  EXPECT_EQ(try_rtr(IBV_QPT_RC, [](ibv_ah_attr* attr, const Info&) { attr->is_global = 0; }), EINVAL);
  refused([](ibv_ah_attr* attr, const Info&) { attr->is_global = 0; });
}

TEST_F(R13Gid, IndexBeyondTheTable) {
  if (a().info().port.gid_tbl_len > 254) {
    refused([](ibv_ah_attr* attr, const Info&) { attr->grh.sgid_index = 255; });
  } else {
    refused([](ibv_ah_attr* attr, const Info& info) { attr->grh.sgid_index = static_cast<u8>(info.port.gid_tbl_len); });
  }
}

TEST_F(R13Gid, IndexOfAnEmptyEntry) {
  ibv_gid last{};
  const int index = std::min(a().info().port.gid_tbl_len - 1, 254);
  const bool there = ibv_query_gid(a().device()->context(), a().info().port_num, index, &last) == 0;
  if (there && (last.global.subnet_prefix != 0 || last.global.interface_id != 0))
    GTEST_SKIP() << "no entry of the table is empty";
  refused([](ibv_ah_attr* attr, const Info& info) {
    attr->grh.sgid_index = static_cast<u8>(std::min(info.port.gid_tbl_len - 1, 254));
  });
}

TEST_F(R13Gid, TheRightOneWorks) {
  EXPECT_EQ(try_rtr(IBV_QPT_RC, [](ibv_ah_attr*, const Info&) {}), 0);
  EXPECT_EQ(try_rtr(IBV_QPT_UC, [](ibv_ah_attr*, const Info&) {}), 0);
}

TEST_F(R13Gid, QueryOfAnEntryBeyondTheTable) {
  ibv_gid gid{};
  EXPECT_NE(ibv_query_gid(a().device()->context(), a().info().port_num, a().info().port.gid_tbl_len, &gid), 0);
}

class R13Infiniband : public Conformance {};

// On InfiniBand a GRH is optional, and works.
TEST_F(R13Infiniband, WithAndWithoutAGrh) {
  if (a().info().ethernet) GTEST_SKIP() << "the port's link layer is Ethernet";
  for (const bool global : {false, true}) {
    Spec spec;
    spec.global = global;
    Pair pair(a(), b(), spec);
    expect_traffic(pair);
  }
}

// ---- Row 14

class R14Pkey : public Conformance {
 protected:
  static bool same_partition(u16 x, u16 y) { return (x & 0x7fff) == (y & 0x7fff) && (x & 0x7fff) != 0; }
  static bool full(u16 pkey) { return pkey & 0x8000; }

  // Indices at a and b of keys for which `wanted` holds.
  template <typename Wanted>
  bool find(u16* at_a, u16* at_b, Wanted wanted) {
    const Info info_a = a().info();
    const Info info_b = b().info();
    for (*at_a = 0; *at_a < info_a.pkey_count; ++*at_a) {
      for (*at_b = 0; *at_b < info_b.pkey_count; ++*at_b) {
        const u16 x = info_a.pkeys[*at_a];
        const u16 y = info_b.pkeys[*at_b];
        if ((x & 0x7fff) != 0 && (y & 0x7fff) != 0 && wanted(x, y)) return true;
      }
    }
    return false;
  }

  static Spec spec(ibv_qp_type type, u16 at_a, u16 at_b) {
    Spec wanted;
    wanted.type = type;
    wanted.pkey_index_a = at_a;
    wanted.pkey_index_b = at_b;
    wanted.timeout = 14;
    wanted.retry = 2;
    return wanted;
  }

  void not_delivered(u16 at_a, u16 at_b) {
    const u32 before = b().info().port.bad_pkey_cntr;
    Pair rc(a(), b(), spec(IBV_QPT_RC, at_a, at_b));
    ASSERT_EQ(rc.b.receive(1, 0, 64).error, 0);
    ASSERT_EQ(rc.a.post(send_wr(2, {rc.a.buffer.sge(0, 8)})).error, 0);
    expect_wc(rc.a.sent(), 2, IBV_WC_RETRY_EXC_ERR);
    EXPECT_TRUE(rc.b.received(1, silence(30)).empty());
    EXPECT_EQ(rc.b.state(), IBV_QPS_RTS);
    EXPECT_GT(b().info().port.bad_pkey_cntr, before) << "the violation is not counted";
    Pair ud(a(), b(), spec(IBV_QPT_UD, at_a, at_b));
    ASSERT_EQ(ud.b.receive(1, 0, 64).error, 0);
    ASSERT_EQ(ud.a.post(ud_wr(2, {ud.a.buffer.sge(0, 8)}, ud.a, ud.b)).error, 0);
    expect_wc(ud.a.sent(), 2, IBV_WC_SUCCESS);
    EXPECT_TRUE(ud.b.received(1, silence()).empty());
  }

  void delivered(u16 at_a, u16 at_b) {
    Pair rc(a(), b(), spec(IBV_QPT_RC, at_a, at_b));
    expect_traffic(rc);
  }
};

TEST_F(R14Pkey, OtherPartition) {
  u16 at_a = 0;
  u16 at_b = 0;
  if (!find(&at_a, &at_b, [](u16 x, u16 y) { return !same_partition(x, y); }))
    GTEST_SKIP() << "the ports are in one partition only";
  not_delivered(at_a, at_b);
}

TEST_F(R14Pkey, LimitedToLimited) {
  u16 at_a = 0;
  u16 at_b = 0;
  if (!find(&at_a, &at_b, [](u16 x, u16 y) { return same_partition(x, y) && !full(x) && !full(y); }))
    GTEST_SKIP() << "no two limited members";
  not_delivered(at_a, at_b);
}

TEST_F(R14Pkey, LimitedToFull) {
  u16 at_a = 0;
  u16 at_b = 0;
  if (!find(&at_a, &at_b, [](u16 x, u16 y) { return same_partition(x, y) && full(x) != full(y); }))
    GTEST_SKIP() << "no limited member";
  delivered(at_a, at_b);
}

TEST_F(R14Pkey, FullToFull) {
  u16 at_a = 0;
  u16 at_b = 0;
  ASSERT_TRUE(find(&at_a, &at_b, [](u16 x, u16 y) { return same_partition(x, y) && full(x) && full(y); }));
  delivered(at_a, at_b);
}

}  // namespace
}  // namespace conformance
