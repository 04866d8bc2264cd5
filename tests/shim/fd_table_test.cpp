#include "shim/fd_table.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace softib::shim {
namespace {

struct Counted final : File {
  explicit Counted(std::atomic<int>& closed) : closed_count(closed) {}
  void closed() override {
    ++closed_count;
    is_closed = true;
  }
  std::atomic<int>& closed_count;
  std::atomic<bool> is_closed{false};
};

struct FdTableTest : testing::Test {
  bool set(int fd, FdClass kind) {
    std::unique_ptr<File> file = std::make_unique<Counted>(closed);
    return table->set(fd, kind, file);
  }
  std::unique_ptr<FdTable> table = std::make_unique<FdTable>();
  std::atomic<int> closed{0};
};

TEST_F(FdTableTest, KnowsNothingAtFirst) {
  EXPECT_EQ(table->kind(0), FdClass::none);
  EXPECT_EQ(table->kind(-1), FdClass::none);
  EXPECT_EQ(table->kind(1 << 30), FdClass::none);
  EXPECT_EQ(table->end(), 0);
}

TEST_F(FdTableTest, ClosesWithTheLastDuplicate) {
  ASSERT_TRUE(set(5, FdClass::command));
  ASSERT_TRUE(table->copy(5, 2000));
  EXPECT_EQ(table->find(5).file, table->find(2000).file);
  table->clear(5);
  EXPECT_EQ(closed, 0);
  EXPECT_EQ(table->kind(5), FdClass::none);
  table->clear(2000);
  EXPECT_EQ(closed, 1);
}

TEST_F(FdTableTest, APinOutlivesTheDescriptor) {
  ASSERT_TRUE(set(5, FdClass::command));
  {
    FdTable::Pin pin = table->pin(5);
    table->clear(5);
    EXPECT_EQ(closed, 0);
    EXPECT_EQ(pin.kind(), FdClass::command);
  }
  EXPECT_EQ(closed, 1);
}

TEST_F(FdTableTest, ReplacingAnEntryClosesTheOldFile) {
  ASSERT_TRUE(set(5, FdClass::command));
  ASSERT_TRUE(set(5, FdClass::channel));
  EXPECT_EQ(closed, 1);
  EXPECT_EQ(table->kind(5), FdClass::channel);
}

TEST_F(FdTableTest, CopyingWhatIsNotOursClearsTheTarget) {
  ASSERT_TRUE(set(5, FdClass::command));
  ASSERT_TRUE(table->copy(9, 5));
  EXPECT_EQ(closed, 1);
  EXPECT_EQ(table->kind(5), FdClass::none);
}

TEST_F(FdTableTest, ADuplicateOfAnOwnDescriptorIsTheProgramsMatter) {
  table->set_own(7);
  ASSERT_TRUE(table->copy(7, 8));
  EXPECT_EQ(table->kind(7), FdClass::own);
  EXPECT_EQ(table->kind(8), FdClass::none);
}

TEST_F(FdTableTest, RefusesNumbersBeyondItsEnd) {
  EXPECT_TRUE(set(static_cast<int>(FdTable::limit) - 1, FdClass::netlink));
  EXPECT_FALSE(set(static_cast<int>(FdTable::limit), FdClass::netlink));
  EXPECT_FALSE(set(-1, FdClass::netlink));
  EXPECT_FALSE(table->copy(static_cast<int>(FdTable::limit) - 1, static_cast<int>(FdTable::limit)));
}

TEST_F(FdTableTest, ForsakenFilesAreNotClosed) {
  ASSERT_TRUE(set(5, FdClass::command));
  File* left = table->find(5).file;
  table->forsake(5, FdClass::received);
  EXPECT_EQ(table->kind(5), FdClass::received);
  EXPECT_EQ(closed, 0);
  delete left;
}

int first_uses = 0;

TEST_F(FdTableTest, AnnouncesItsFirstUseOnce) {
  FdTable announced([] { ++first_uses; });
  EXPECT_EQ(announced.kind(3), FdClass::none);
  EXPECT_EQ(first_uses, 0);
  announced.set_own(3);
  announced.set_own(4);
  EXPECT_EQ(first_uses, 1);
}

// Threads open, duplicate, pin, look up and close the same few numbers. Every file must be closed exactly once, and
// never while it is pinned; a thread sanitizer sees the rest.
TEST_F(FdTableTest, ThreadsOnTheSameNumbers) {
  constexpr int threads = 4;
  constexpr int rounds = 5000;
  std::atomic<int> made{0};
  std::atomic<int> closed_under_pin{0};
  auto work = [&](unsigned seed) {
    for (int i = 0; i < rounds; ++i) {
      seed = seed * 1664525 + 1013904223;
      int fd = static_cast<int>(seed >> 24) % 8 + 1020;  // both sides of a chunk's border
      switch (seed >> 16 & 3) {
        case 0:
          ++made;
          EXPECT_TRUE(set(fd, FdClass::command));
          break;
        case 1:
          EXPECT_TRUE(table->copy(fd, 1020 + (fd + 3) % 8));
          break;
        case 2: {
          FdTable::Pin pin = table->pin(fd);
          if (pin.kind() == FdClass::command && pin.as<Counted>().is_closed) ++closed_under_pin;
          break;
        }
        default:
          table->clear(fd);
      }
      (void)table->find(fd);
    }
  };
  std::vector<std::thread> running;
  for (unsigned i = 0; i < threads; ++i) running.emplace_back(work, i * 7919 + 1);
  for (auto& thread : running) thread.join();
  for (int fd = 0; fd < table->end(); ++fd) table->clear(fd);
  EXPECT_EQ(closed, made);
  EXPECT_EQ(closed_under_pin, 0);
}

}  // namespace
}  // namespace softib::shim
