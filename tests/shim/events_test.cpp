#include "shim/events.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <rdma/ib_user_verbs.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <thread>

#include "base/fd.h"
#include "ipc/protocol.h"

namespace softib::shim {
namespace {

constexpr u32 qpn = 42;
constexpr u32 cq = 7;

struct Events : testing::Test {
  void SetUp() override {
    void* place =
        ::mmap(nullptr, ipc::segment_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    ASSERT_NE(place, MAP_FAILED);
    segment = static_cast<ipc::Segment*>(place);
    segment->qps[qpn].generation = 3;
    segment->cqs[cq].generation = 5;
    int ends[2];
    ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
    reader.reset(ends[0]);
    writer.reset(ends[1]);
  }
  void TearDown() override { ::munmap(segment, ipc::segment_size); }

  template <typename Record>
  void put(const Record& record) {
    ASSERT_EQ(::write(writer.get(), &record, sizeof record), static_cast<ssize_t>(sizeof record));
  }
  void never_block() { ASSERT_EQ(::fcntl(reader.get(), F_SETFL, O_NONBLOCK), 0); }
  ipc::AsyncRecord qp_event(u32 generation) { return {0x1234, 1, ipc::ObjectKind::qp, qpn, generation}; }

  ipc::Segment* segment = nullptr;
  Fd reader, writer;
  ib_uverbs_async_event_desc event{};
};

TEST_F(Events, AsyncRecordBecomesTheKernelsEvent) {
  put(qp_event(3));
  EXPECT_EQ(read_async_event(*segment, reader.get(), &event, sizeof event), 16);
  EXPECT_EQ(event.element, 0x1234U);
  EXPECT_EQ(event.event_type, 1U);
  EXPECT_EQ(segment->qps[qpn].async_events_reported, 1U);
}

TEST_F(Events, CompletionRecordBecomesTheKernelsEvent) {
  put(ipc::CompletionRecord{0xabcd, cq, 5});
  ib_uverbs_comp_event_desc completion{};
  EXPECT_EQ(read_completion_event(*segment, reader.get(), &completion, sizeof completion), 8);
  EXPECT_EQ(completion.cq_handle, 0xabcdU);
  EXPECT_EQ(segment->cqs[cq].events_reported, 1U);
  EXPECT_EQ(segment->cqs[cq].async_events_reported, 0U);
}

TEST_F(Events, OneEventPerRead) {
  put(qp_event(3));
  put(qp_event(3));
  ib_uverbs_async_event_desc room[2]{};
  EXPECT_EQ(read_async_event(*segment, reader.get(), room, sizeof room), 16);
  EXPECT_EQ(segment->qps[qpn].async_events_reported, 1U);
}

TEST_F(Events, RecordsOfObjectsThatHaveGoneAreSkipped) {
  put(qp_event(2));
  put(ipc::AsyncRecord{9, 0, ipc::ObjectKind::cq, cq, 4});
  put(ipc::AsyncRecord{1, 10, ipc::ObjectKind::port, 1, 0});
  EXPECT_EQ(read_async_event(*segment, reader.get(), &event, sizeof event), 16);
  EXPECT_EQ(event.event_type, 10U);
  EXPECT_EQ(segment->qps[qpn].async_events_reported, 0U);
  EXPECT_EQ(segment->cqs[cq].async_events_reported, 0U);
}

TEST_F(Events, AClosedCountTakesNoMore) {
  segment->qps[qpn].async_events_reported = 4 | ipc::events_closed;
  put(qp_event(3));
  never_block();
  EXPECT_EQ(read_async_event(*segment, reader.get(), &event, sizeof event), -EAGAIN);
  EXPECT_EQ(segment->qps[qpn].async_events_reported, 4 | ipc::events_closed);
}

TEST_F(Events, WildObjectNumbersStayInTheTables) {
  put(ipc::AsyncRecord{1, 1, ipc::ObjectKind::qp, 0xffff'ffff, 77});
  put(ipc::AsyncRecord{1, 1, ipc::ObjectKind::srq, 0xffff'ffff, 77});
  never_block();
  EXPECT_EQ(read_async_event(*segment, reader.get(), &event, sizeof event), -EAGAIN);
}

TEST_F(Events, ShortBufferKeepsTheEvent) {
  put(qp_event(3));
  EXPECT_EQ(read_async_event(*segment, reader.get(), &event, sizeof event - 1), -EINVAL);
  EXPECT_EQ(read_async_event(*segment, reader.get(), &event, 0), -EINVAL);
  EXPECT_EQ(read_async_event(*segment, reader.get(), &event, sizeof event), 16);
}

TEST_F(Events, NothingThere) {
  never_block();
  EXPECT_EQ(read_async_event(*segment, reader.get(), &event, sizeof event), -EAGAIN);
  EXPECT_EQ(read_async_event(*segment, reader.get(), &event, 1), -EAGAIN);
}

TEST_F(Events, WritersGone) {
  writer.reset();
  EXPECT_EQ(read_async_event(*segment, reader.get(), &event, sizeof event), -EIO);
}

// A destroyer closes the count while readers deliver: what it sees must be what was delivered.
TEST_F(Events, DestroyReportsExactlyWhatWasDelivered) {
  constexpr int records = 2000;  // 32 KB: fits the pipe
  for (int i = 0; i < records; ++i) put(ipc::CompletionRecord{1, cq, 5});
  never_block();
  std::atomic<u32> delivered{0};
  auto read_all = [&] {
    ib_uverbs_comp_event_desc completion{};
    while (read_completion_event(*segment, reader.get(), &completion, sizeof completion) > 0) ++delivered;
  };
  std::thread first(read_all), second(read_all);
  while (segment->cqs[cq].events_reported < 100) std::this_thread::yield();
  u32 reported = segment->cqs[cq].events_reported.fetch_or(ipc::events_closed);
  first.join();
  second.join();
  EXPECT_EQ(delivered, reported & ~ipc::events_closed);
  EXPECT_GE(reported, 100U);
}

}  // namespace
}  // namespace softib::shim
