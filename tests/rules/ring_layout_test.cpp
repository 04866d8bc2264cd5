#include "hca/rules/ring_layout.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include "abi/rxe.h"
#include "hca/engine/ring.h"
#include "hca/limits.h"

namespace softib::hca {
namespace {

TEST(RingLayout, HoldsWhatWasAskedFor) {
  for (u32 entries : {0U, 1U, 2U, 3U, 4U, 127U, 128U, 129U, 16384U}) {
    RingLayout cq = cq_layout(entries);
    EXPECT_GE(cq.entries(), entries);
    EXPECT_GE(cq.slots, 2U);
    EXPECT_EQ(cq.slots & cq.mask(), 0U) << "a power of two";
    EXPECT_EQ(cq.log2_size, 6) << "48-byte entries in 64-byte slots";
    EXPECT_EQ(cq.bytes(), 384 + u64{cq.slots} * 64);
  }
}

TEST(RingLayout, ElementsHoldTheirLists) {
  for (u32 sges = 1; sges <= limits::max_sge; ++sges) {
    EXPECT_GE(1U << receive_layout(1, sges).log2_size, sizeof(abi::RecvWqe) + sges * 16);
    EXPECT_LT(1U << receive_layout(1, sges).log2_size, 2 * (sizeof(abi::RecvWqe) + sges * 16));
    for (u32 bytes : {0U, 64U, 256U, 1024U})
      EXPECT_GE(1U << send_layout(1, sges, bytes).log2_size, sizeof(abi::SendWqe) + std::max(sges * 16, bytes));
  }
}

TEST(RingLayout, NoneIsLargerThanViewsReach) {
  EXPECT_EQ(cq_layout(limits::max_cqe).bytes(), abi::ring_head_size + limits::max_ring_bytes);
  RingLayout send = send_layout(limits::max_qp_wr, limits::max_sge, limits::max_inline);
  EXPECT_LE(send.bytes(), limits::max_ring_bytes);
  EXPECT_LE(1U << send.log2_size, limits::max_element_bytes);
  RingLayout receive = receive_layout(limits::max_srq_wr, limits::max_srq_sge);
  EXPECT_LE(receive.bytes(), limits::max_ring_bytes);
  EXPECT_LE(1U << receive.log2_size, limits::max_element_bytes);
}

// Whatever stands in a record of the segment. Views are made of a segment that nobody touches here.
TEST(RingView, StaysWithinReachOfTheArena) {
  void* place = ::mmap(nullptr, ipc::segment_size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ASSERT_NE(place, MAP_FAILED);
  auto& segment = *static_cast<ipc::Segment*>(place);
  const u8* end = segment.arena + ipc::arena_size + ring_reach;
  for (u64 offset : {u64{0}, u64{8}, ipc::arena_size - 8, ipc::arena_size - 4096, ipc::arena_size + 12345, ~u64{0}})
    for (u32 mask : {0U, 1U, 0x3f'ffffU, 0xdead'beefU, ~0U})
      for (u32 log2_size : {0U, 6U, 11U, 31U, 63U, 200U, ~0U}) {
        const u8* element = Ring(segment, offset, mask).at<u8>(~0U, log2_size);
        EXPECT_GE(element, segment.arena + abi::ring_head_size);
        EXPECT_LE(element + limits::max_element_bytes, end);
      }
  ::munmap(place, ipc::segment_size);
}

TEST(PlanQp, GrantsAtLeastWhatIsAskedFor) {
  for (u32 wr : {0U, 1U, 100U, limits::max_qp_wr})
    for (u32 sges : {0U, 1U, 5U, limits::max_sge})
      for (u32 bytes : {0U, 220U, limits::max_inline}) {
        auto plan = plan_qp({wr, wr, sges, sges, bytes}, false);
        ASSERT_TRUE(plan);
        EXPECT_GE(plan->granted.max_send_wr, wr);
        EXPECT_GE(plan->granted.max_recv_wr, wr);
        EXPECT_GE(plan->granted.max_send_sge, std::max(sges, 1U));
        EXPECT_GE(plan->granted.max_recv_sge, std::max(sges, 1U));
        EXPECT_GE(plan->granted.max_inline, std::max(bytes, 220U));
        EXPECT_EQ(plan->granted.max_send_wr, plan->send.entries());
      }
}

TEST(PlanQp, RefusesMoreThanTheLimits) {
  ipc::QpCaps most{limits::max_qp_wr, limits::max_qp_wr, limits::max_sge, limits::max_sge, limits::max_inline};
  ASSERT_TRUE(plan_qp(most, false));
  for (u32 ipc::QpCaps::*field : {&ipc::QpCaps::max_send_wr, &ipc::QpCaps::max_recv_wr, &ipc::QpCaps::max_send_sge,
                                  &ipc::QpCaps::max_recv_sge, &ipc::QpCaps::max_inline}) {
    for (u32 value : {most.*field + 1, ~0U}) {
      ipc::QpCaps asked = most;
      asked.*field = value;
      auto plan = plan_qp(asked, false);
      ASSERT_FALSE(plan);
      EXPECT_EQ(to_int(plan.error()), EINVAL);
    }
  }
}

TEST(PlanQp, AnSrqReplacesTheReceiveQueue) {
  auto plan = plan_qp({1, ~0U, 1, ~0U, 0}, true);
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->receive.bytes(), 0U);
  EXPECT_EQ(plan->granted.max_recv_wr, 0U);
}

}  // namespace
}  // namespace softib::hca
