// Row 28: multicast between UD QPs.
#include <chrono>
#include <cstring>
#include <map>
#include <thread>

#include "support.h"

namespace conformance {
namespace {

class R28Multicast : public Conformance {
 protected:
  void SetUp() override {
    if (a().info().device.max_mcast_grp == 0) GTEST_SKIP() << "the device has no multicast";
    ethernet_ = a().info().ethernet;
  }

  static Spec spec() {
    Spec wanted;
    wanted.type = IBV_QPT_UD;
    return wanted;
  }

  // A group's address. On Ethernet the GID is an IPv4-mapped or IPv6 multicast address as the port's own GID is.
  ibv_gid group(u8 last = 1) {
    ibv_gid gid{};
    static const u8 mapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
    const Info info = a().info();
    if (ethernet_ && std::memcmp(info.gid.raw, mapped, 12) == 0) {
      std::memcpy(gid.raw, mapped, 12);
      const u8 tail[4] = {239, 1, 2, last};
      std::memcpy(gid.raw + 12, tail, 4);
    } else {
      const u8 head[8] = {0xff, 0x12, 0x40, 0x1b, 0xff, 0xff, 0, 0};
      if (ethernet_)
        gid.raw[0] = 0xff, gid.raw[1] = 0x0e;
      else
        std::memcpy(gid.raw, head, 8);
      gid.raw[14] = 0x77;
      gid.raw[15] = last;
    }
    return gid;
  }
  static constexpr u16 any_mlid = 0xc010;

  // On InfiniBand switches forward to the ports that are members at the subnet administration; both ends are.
  u16 lid_of(u8 last = 1) {
    if (ethernet_) return static_cast<u16>(any_mlid + last);
    if (const auto known = lids_.find(last); known != lids_.end()) return known->second;
    u16 lid = 0;
    for (const End* end : {&a(), &b()}) {
      const Joined joined = end->join_group(group(last), default_qkey);
      must(joined.error, "joining a group");
      lid = joined.lid;
    }
    std::this_thread::sleep_for(settling);
    return lids_[last] = lid;
  }

  Send to_group(const Node& from, u64 wr_id, u8 last = 1, u32 qkey = default_qkey) {
    ibv_ah_attr attr = address_to(from.info, from.info, true);
    attr.dlid = lid_of(last);
    attr.grh.dgid = group(last);
    const Made ah = from.end->create_ah(from.pd, attr);
    must(ah.error, "ibv_create_ah for a group");
    Send send = send_wr(wr_id, {from.buffer.sge(0, 64)});
    send.ah = ah.id;
    send.remote_qpn = 0xffffff;
    send.remote_qkey = qkey;
    return send;
  }

  int join(const Node& node, u8 last = 1) { return node.end->attach(node.qp, group(last), lid_of(last)); }
  int leave(const Node& node, u8 last = 1) { return node.end->detach(node.qp, group(last), lid_of(last)); }

  static void two_receives(const Node& node) {
    must(node.receive({{1, {node.buffer.sge(1024, 512)}}, {2, {node.buffer.sge(2048, 512)}}}).error, "ibv_post_recv");
  }
  static constexpr std::chrono::milliseconds settling{200};  // until the switches' tables follow
  static size_t got(const Node& node, u32 most = 2) { return node.received(most, silence(300)).size(); }

  bool ethernet_ = false;
  std::map<u8, u16> lids_;
};

TEST_F(R28Multicast, EveryMemberOnce) {
  Pair first(a(), b(), spec());
  Pair second(a(), b(), spec());
  Pair third(a(), b(), spec());
  ASSERT_EQ(join(first.b), 0);
  ASSERT_EQ(join(second.b), 0);
  ASSERT_EQ(join(second.a), 0);
  for (const Node* node : {&first.b, &second.b, &second.a, &third.b}) two_receives(*node);
  a().fill(first.a.buffer.address, 64, 3);
  ASSERT_EQ(first.a.post(to_group(first.a, 7)).error, 0);
  expect_wc(first.a.sent(), 7, IBV_WC_SUCCESS);
  for (const Node* node : {&first.b, &second.b}) {
    const auto wcs = node->received(2, silence(400));
    ASSERT_EQ(wcs.size(), 1u);
    EXPECT_EQ(wcs[0].byte_len, 104u);
    EXPECT_EQ(wcs[0].src_qp, first.a.qpn);
    EXPECT_TRUE(wcs[0].wc_flags & IBV_WC_GRH);
    EXPECT_EQ(node->end->mismatch(node->buffer.address + 1024 + 40, 64, 3), -1);
  }
  EXPECT_EQ(got(second.a), 1u) << "a member on the sender's own device";
  EXPECT_EQ(got(third.b), 0u) << "not a member";
}

TEST_F(R28Multicast, DestinationGidIsTheGroup) {
  Pair pair(a(), b(), spec());
  ASSERT_EQ(join(pair.b), 0);
  two_receives(pair.b);
  ASSERT_EQ(pair.a.post(to_group(pair.a, 7)).error, 0);
  ASSERT_EQ(pair.b.received().size(), 1u);
  const Bytes room = b().read_bytes(pair.b.buffer.address + 1024, 40);
  const ibv_gid gid = group();
  if (room[0] >> 4 == 6)
    EXPECT_EQ(std::memcmp(&room[24], gid.raw, 16), 0);
  else
    EXPECT_EQ(std::memcmp(&room[36], gid.raw + 12, 4), 0);
}

// A sender that is a member gets a copy too: no QP here asked to block its own.
TEST_F(R28Multicast, SendersOwnCopy) {
  Pair pair(a(), b(), spec());
  ASSERT_EQ(join(pair.a), 0);
  ASSERT_EQ(join(pair.b), 0);
  two_receives(pair.a);
  two_receives(pair.b);
  ASSERT_EQ(pair.a.post(to_group(pair.a, 7)).error, 0);
  EXPECT_EQ(got(pair.a), 1u);
  EXPECT_EQ(got(pair.b), 1u);
}

TEST_F(R28Multicast, SendingNeedsNoMembership) {
  Pair pair(a(), b(), spec());
  ASSERT_EQ(pair.a.post(to_group(pair.a, 7)).error, 0);
  expect_wc(pair.a.sent(), 7, IBV_WC_SUCCESS);
}

TEST_F(R28Multicast, NothingAfterDetach) {
  Pair pair(a(), b(), spec());
  ASSERT_EQ(join(pair.b), 0);
  ASSERT_EQ(leave(pair.b), 0);
  two_receives(pair.b);
  ASSERT_EQ(pair.a.post(to_group(pair.a, 7)).error, 0);
  EXPECT_EQ(got(pair.b), 0u);
  ASSERT_EQ(join(pair.b), 0);
  ASSERT_EQ(pair.a.post(to_group(pair.a, 8)).error, 0);
  EXPECT_EQ(got(pair.b), 1u);
}

TEST_F(R28Multicast, AttachedTwiceStillOnce) {
  Pair pair(a(), b(), spec());
  ASSERT_EQ(join(pair.b), 0);
  ASSERT_EQ(join(pair.b), 0);
  two_receives(pair.b);
  ASSERT_EQ(pair.a.post(to_group(pair.a, 7)).error, 0);
  EXPECT_EQ(got(pair.b), 1u);
}

TEST_F(R28Multicast, GroupsAreApart) {
  Pair pair(a(), b(), spec());
  ASSERT_EQ(join(pair.b, 2), 0);
  two_receives(pair.b);
  ASSERT_EQ(pair.a.post(to_group(pair.a, 7, 3)).error, 0);
  EXPECT_EQ(got(pair.b), 0u);
  ASSERT_EQ(pair.a.post(to_group(pair.a, 8, 2)).error, 0);
  EXPECT_EQ(got(pair.b), 1u);
}

TEST_F(R28Multicast, WrongQkeyIsDropped) {
  Pair pair(a(), b(), spec());
  ASSERT_EQ(join(pair.b), 0);
  two_receives(pair.b);
  ASSERT_EQ(pair.a.post(to_group(pair.a, 7, 1, 0x222)).error, 0);
  EXPECT_EQ(got(pair.b), 0u);
}

TEST_F(R28Multicast, MemberWithoutAReceiveMissesIt) {
  Pair first(a(), b(), spec());
  Pair second(a(), b(), spec());
  ASSERT_EQ(join(first.b), 0);
  ASSERT_EQ(join(second.b), 0);
  two_receives(second.b);
  ASSERT_EQ(first.a.post(to_group(first.a, 7)).error, 0);
  EXPECT_EQ(got(second.b), 1u);
  EXPECT_EQ(got(first.b), 0u);
}

TEST_F(R28Multicast, Refused) {
  Pair ud(a(), b(), spec());
  Pair rc(a(), b());
  ibv_gid unicast = group();
  unicast.raw[0] = 0xfe;
  unicast.raw[1] = 0x80;
  EXPECT_EQ(a().attach(rc.a.qp, group(), any_mlid + 1), EINVAL) << "an RC QP";
  EXPECT_EQ(a().attach(ud.a.qp, unicast, any_mlid), EINVAL) << "not a multicast GID";
  EXPECT_EQ(leave(ud.a), EINVAL) << "never attached";
}

TEST_F(R28Multicast, DestroyWhileAttachedIsBusy) {
  Pair pair(a(), b(), spec());
  ASSERT_EQ(join(pair.a), 0);
  EXPECT_EQ(a().destroy_qp(pair.a.qp), EBUSY);
  two_receives(pair.a);
  ASSERT_EQ(pair.a.post(to_group(pair.a, 7)).error, 0);
  EXPECT_EQ(got(pair.a), 1u) << "the refused destroy must change nothing";
  ASSERT_EQ(leave(pair.a), 0);
  EXPECT_EQ(a().destroy_qp(pair.a.qp), 0);
}

}  // namespace
}  // namespace conformance
