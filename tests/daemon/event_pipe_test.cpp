#include "daemon/event_pipe.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>

namespace softib::daemon {
namespace {

struct Record {
  u64 value;
  u64 group;
};

TEST(EventPipe, DropsWhatMatchesAndKeepsTheOrderOfTheRest) {
  auto pipe = make_pipe();
  ASSERT_TRUE(pipe);
  for (u64 i = 0; i < 3000; ++i) {
    Record record{i, i % 3};
    ASSERT_TRUE(write_record(pipe->write, &record, sizeof record));
  }
  drop_records<Record>(pipe->write, [](const Record& record) { return record.group == 1; });
  for (u64 i = 0; i < 3000; ++i) {
    if (i % 3 == 1) continue;
    Record record{};
    ASSERT_EQ(::read(pipe->read.get(), &record, sizeof record), static_cast<ssize_t>(sizeof record));
    EXPECT_EQ(record.value, i);
  }
  pollfd empty{pipe->read.get(), POLLIN, 0};
  EXPECT_EQ(::poll(&empty, 1, 0), 0);
  EXPECT_EQ(::fcntl(pipe->read.get(), F_GETFL) & O_NONBLOCK, 0) << "the program's end stays as it was";
}

TEST(EventPipe, AFullPipeIsAnError) {
  auto pipe = make_pipe();
  ASSERT_TRUE(pipe);
  Record record{};
  Result<void> written;
  for (int i = 0; i < 1 << 20 && written; ++i) written = write_record(pipe->write, &record, sizeof record);
  ASSERT_FALSE(written);
  EXPECT_EQ(to_int(written.error()), EAGAIN);
  drop_records<Record>(pipe->write, [](const Record&) { return true; });
  EXPECT_TRUE(write_record(pipe->write, &record, sizeof record));
}

TEST(EventPipe, Grows) {
  auto pipe = make_pipe();
  ASSERT_TRUE(pipe);
  int before = ::fcntl(pipe->write.get(), F_GETPIPE_SZ);
  grow_pipe(pipe->write, 1);
  EXPECT_EQ(::fcntl(pipe->write.get(), F_GETPIPE_SZ), before);
  grow_pipe(pipe->write, 200'000);
  EXPECT_GE(::fcntl(pipe->write.get(), F_GETPIPE_SZ), 200'000);
}

}  // namespace
}  // namespace softib::daemon
