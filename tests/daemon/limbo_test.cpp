#include "daemon/limbo.h"

#include <gtest/gtest.h>

#include "daemon/segment_file.h"

namespace softib::daemon {
namespace {

class LimboTest : public ::testing::Test {
 protected:
  LimboTest() : file_(std::move(*SegmentFile::create())), limbo_(file_->segment()) {
    file_->segment().header.process_limit = 3;
    for (u32 slot : {1U, 2U}) file_->segment().processes[slot].state = ipc::ProcessState::live;
  }

  void enter(u32 slot, u32 lane = 0) { file_->segment().processes[slot].lanes[lane].sequence += 1; }
  void leave(u32 slot, u32 lane = 0) { file_->segment().processes[slot].lanes[lane].sequence += 1; }

  std::unique_ptr<SegmentFile> file_;
  Limbo limbo_;
  int released_ = 0;
};

TEST_F(LimboTest, NobodyInsideReleasesAtOnce) {
  limbo_.add([this] { ++released_; });
  EXPECT_FALSE(limbo_.empty());
  limbo_.poll();
  EXPECT_EQ(released_, 1);
  EXPECT_TRUE(limbo_.empty());
}

TEST_F(LimboTest, WaitsForThoseInsideAndNotForThoseWhoComeLater) {
  enter(1);
  limbo_.add([this] { ++released_; });
  limbo_.poll();
  EXPECT_EQ(released_, 0);
  enter(2, 31);
  limbo_.poll();
  EXPECT_EQ(released_, 0);
  leave(1);
  limbo_.poll();
  EXPECT_EQ(released_, 1);
}

TEST_F(LimboTest, LeavingAndComingBackCounts) {
  enter(1);
  limbo_.add([this] { ++released_; });
  limbo_.poll();
  leave(1);
  enter(1);
  limbo_.poll();
  EXPECT_EQ(released_, 1);
}

TEST_F(LimboTest, TheDeadAreNotWaitedFor) {
  enter(1);
  limbo_.add([this] { ++released_; });
  limbo_.poll();
  file_->segment().processes[1].state = ipc::ProcessState::dead;
  limbo_.poll();
  EXPECT_EQ(released_, 1);
}

TEST_F(LimboTest, WhatIsAddedWhileOthersWaitGetsItsOwnSnapshot) {
  enter(1);
  limbo_.add([this] { ++released_; });
  limbo_.poll();
  enter(2);
  limbo_.add([this] { released_ += 10; });
  leave(1);
  limbo_.poll();
  EXPECT_EQ(released_, 1) << "slot 2 was inside when the second was added";
  leave(2);
  limbo_.poll();
  EXPECT_EQ(released_, 11);
}

TEST_F(LimboTest, AReleaseMayAdd) {
  limbo_.add([this] { limbo_.add([this] { ++released_; }); });
  limbo_.poll();
  limbo_.poll();
  EXPECT_EQ(released_, 1);
}

}  // namespace
}  // namespace softib::daemon
