// Copies from and to the program's own memory: wild pointers are EFAULT, good ones of every kind work.
#include "kernel/user_memory.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <numeric>
#include <thread>
#include <vector>

namespace softib::kernel {
namespace {

// 0 or the errno.
int errno_of(const Result<void>& result) { return result ? 0 : to_int(result.error()); }

u64 address_of(const void* pointer) { return reinterpret_cast<u64>(pointer); }

void check_copies(u8* place) {
  std::array<u8, 64> pattern;
  std::iota(pattern.begin(), pattern.end(), u8{1});
  ASSERT_TRUE(own_memory().copy_out(address_of(place), pattern.data(), pattern.size()));
  EXPECT_EQ(place[63], 64);
  std::array<u8, 64> back{};
  ASSERT_TRUE(own_memory().copy_in(back.data(), address_of(place), back.size()));
  EXPECT_EQ(back, pattern);
  ASSERT_TRUE(own_memory().clear(address_of(place), 32));
  EXPECT_EQ(place[31], 0);
  EXPECT_EQ(place[32], 33);
}

TEST(UserMemory, Stack) {
  u8 place[64];
  check_copies(place);
}

TEST(UserMemory, StackOfAnotherThread) {
  std::thread([] {
    u8 place[64];
    check_copies(place);
  }).join();
}

TEST(UserMemory, Heap) {
  std::vector<u8> place(64);
  check_copies(place.data());
}

TEST(UserMemory, WildPointers) {
  u64 value = 0;
  for (u64 wild : {u64{0}, u64{8}, u64{4096}, u64{1} << 47, ~u64{0}, ~u64{7}}) {
    EXPECT_EQ(errno_of(own_memory().copy_in(&value, wild, 8)), EFAULT) << wild;
    EXPECT_EQ(errno_of(own_memory().copy_out(wild, &value, 8)), EFAULT) << wild;
  }
  EXPECT_TRUE(own_memory().copy_in(&value, 0, 0));
}

class Pages : public ::testing::Test {
 protected:
  void SetUp() override {
    pages = static_cast<u8*>(::mmap(nullptr, 2 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    ASSERT_NE(pages, MAP_FAILED);
  }
  void TearDown() override { ::munmap(pages, 2 * 4096); }
  u8* pages;
};

TEST_F(Pages, UnreadableAndUnwritable) {
  u8 bytes[64];
  ASSERT_EQ(::mprotect(pages + 4096, 4096, PROT_NONE), 0);
  EXPECT_EQ(errno_of(own_memory().copy_in(bytes, address_of(pages + 4096), 64)), EFAULT);
  EXPECT_EQ(errno_of(own_memory().copy_in(bytes, address_of(pages + 4096 - 32), 64)), EFAULT);  // half of it
  EXPECT_TRUE(own_memory().copy_in(bytes, address_of(pages + 4096 - 64), 64));
  ASSERT_EQ(::mprotect(pages, 4096, PROT_READ), 0);
  EXPECT_TRUE(own_memory().copy_in(bytes, address_of(pages), 64));
  EXPECT_EQ(errno_of(own_memory().copy_out(address_of(pages), bytes, 64)), EFAULT);
}

TEST_F(Pages, Prefetch) {
  auto resident = [this] {
    unsigned char map[2];
    return ::mincore(pages, 2 * 4096, map) == 0 && (map[0] & 1) && (map[1] & 1);
  };
  EXPECT_FALSE(resident());
  EXPECT_TRUE(own_memory().prefetch(address_of(pages) + 100, 4096, true));
  EXPECT_TRUE(resident());
  ASSERT_EQ(::mprotect(pages, 2 * 4096, PROT_NONE), 0);
  EXPECT_EQ(errno_of(own_memory().prefetch(address_of(pages), 4096, false)), EFAULT);
  EXPECT_EQ(errno_of(own_memory().prefetch(0, 4096, false)), EFAULT);
}

// A child must read its own memory, not its parent's.
TEST(UserMemory, AfterFork) {
  std::vector<u64> value(100, 1);
  u64 seen = 0;
  ASSERT_TRUE(own_memory().copy_in(&seen, address_of(value.data()), 8));
  pid_t child = ::fork();
  if (child == 0) {
    value[0] = 2;
    bool good = own_memory().copy_in(&seen, address_of(value.data()), 8) && seen == 2;
    ::_exit(good ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(value[0], 1U);
}

TEST(UserMemory, ErrnoIsKept) {
  errno = 4711;
  u64 value;
  std::vector<u8> heap(64);
  (void)own_memory().copy_in(&value, address_of(heap.data()), 8);
  (void)own_memory().copy_in(&value, 1ULL << 46, 8);
  EXPECT_EQ(errno, 4711);
}

}  // namespace
}  // namespace softib::kernel
