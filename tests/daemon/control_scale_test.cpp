// 10,000 QPs and 100,000 MRs in one process, and how long they take.
#include <ctime>

#include "control_fixture.h"

namespace softib::daemon {
namespace {

// Time that this process has computed: a busy machine does not count.
class Stopwatch {
 public:
  [[nodiscard]] double seconds() const { return now() - start_; }

 private:
  static double now() {
    timespec used{};
    ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return static_cast<double>(used.tv_sec) + static_cast<double>(used.tv_nsec) * 1e-9;
  }
  double start_ = now();
};

// Generous: a slow machine takes 20 us for each of these, a quadratic algorithm minutes for all.
constexpr double limit_s = 30;

class ControlScale : public ControlTest {};

TEST_F(ControlScale, TenThousandQueuePairs) {
  constexpr u32 count = 10'000;
  TestProcess process = start("host0");
  u32 pd = make_pd(process);
  u32 cq = make_cq(process, 1000);
  u64 before = control_->segment_file().allocated_bytes();
  Stopwatch watch;
  std::vector<u32> qpns;
  u64 rings = 0;
  for (u32 i = 0; i < count; ++i) {
    auto reply = call<ipc::CreateQp>(process, qp_request(pd, cq, ipc::QpType::rc));
    ASSERT_TRUE(reply);
    qpns.push_back(reply->qpn);
    rings += reply->sq_ring_size + reply->rq_ring_size;
  }
  for (u32 qpn : qpns) bring_to(process, qpn, ipc::QpType::rc, ipc::QpState::rts);
  EXPECT_LT(watch.seconds(), limit_s);
  u64 after = control_->segment_file().allocated_bytes();
  EXPECT_LT(after - before, u64{count} * 4096 + rings) << "at most 4 KiB each beyond the rings";
  watch = {};
  for (u32 qpn : qpns) ASSERT_EQ(error_of<ipc::DestroyQp>(process, {qpn}), 0);
  settle();
  EXPECT_LT(watch.seconds(), limit_s);
  // Their records stay, their rings do not.
  EXPECT_LT(control_->segment_file().allocated_bytes() - before, u64{count} * 1024);
}

TEST_F(ControlScale, AHundredThousandRegions) {
  constexpr u32 count = 100'000;
  TestProcess process = start("host0");
  u32 pd = make_pd(process);
  Stopwatch watch;
  std::vector<u32> regions;
  for (u32 i = 0; i < count; ++i) {
    auto mr = call<ipc::RegMr>(process, {pd, 7, u64{i} << 12, u64{i} << 12, 4096, 0, 0});
    ASSERT_TRUE(mr);
    regions.push_back(mr->mr);
  }
  for (u32 mr : regions) ASSERT_EQ(error_of<ipc::DeregMr>(process, {mr}), 0);
  settle();
  EXPECT_LT(watch.seconds(), limit_s);
}

TEST_F(ControlScale, DeathWithAllOfThem) {
  TestProcess process = start("host0");
  u32 pd = make_pd(process);
  u32 cq = make_cq(process, 1000);
  for (u32 i = 0; i < 10'000; ++i) ASSERT_TRUE(call<ipc::CreateQp>(process, qp_request(pd, cq, ipc::QpType::rc)));
  for (u32 i = 0; i < 100'000; ++i) ASSERT_TRUE(call<ipc::RegMr>(process, {pd, 7, 4096, 4096, 4096, 0, 0}));
  Stopwatch watch;
  die(process);
  settle();
  EXPECT_LT(watch.seconds(), limit_s / 10);
  EXPECT_EQ(control_->arena().used_bytes(), 0U);
}

TEST_F(ControlScale, TheTableOfPdsHasAnEnd) {
  TestProcess process = start("host0");
  Result<ipc::AllocPd::Reply> pd;
  for (u32 i = 0; i < 40'000 && pd; ++i) pd = call<ipc::AllocPd>(process);
  ASSERT_FALSE(pd);
  EXPECT_EQ(to_int(pd.error()), ENOMEM);
}

}  // namespace
}  // namespace softib::daemon
