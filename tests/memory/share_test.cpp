// What share() moves, what it leaves alone, and what it answers.
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/io_uring.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include <chrono>
#include <cstdlib>
#include <thread>
#include <vector>

#include "memory/support.h"

namespace softib::hca::testing {
namespace {

TEST(Share, KeepsContentsAndShowsThemToPeers) {
  auto memory = make_memory();
  Region region(64 * page);
  fill(region.data(), region.size(), 1);
  const auto shared = memory->share(region.address(), region.size(), true);
  ASSERT_TRUE(shared);
  EXPECT_EQ(shared->begin, region.address());
  EXPECT_EQ(shared->end, region.address() + region.size());
  EXPECT_EQ(first_difference(region.data(), region.size(), 1), -1);

  PeerView peer(*memory, region.address(), region.size());
  EXPECT_EQ(first_difference(peer.data(), region.size(), 1), -1);
  peer.data()[5 * page] = 'p';
  EXPECT_EQ(region.data()[5 * page], 'p');
  region.data()[6 * page + 7] = 'o';
  EXPECT_EQ(peer.data()[6 * page + 7], 'o');
}

TEST(Share, MovesPartialPagesWithTheirNeighbours) {
  auto memory = make_memory();
  Region region(3 * page);
  fill(region.data(), region.size(), 2);
  const u64 begin = region.address() + page - 100;
  const auto shared = memory->share(begin, page + 200, true);
  ASSERT_TRUE(shared);
  EXPECT_EQ(shared->begin, begin);
  EXPECT_EQ(shared->end, begin + page + 200);
  EXPECT_EQ(first_difference(region.data(), region.size(), 2), -1);
  EXPECT_EQ(memory->usage().shared_bytes, 3 * page);
}

TEST(Share, HeapBuffersWork) {
  auto memory = make_memory();
  std::vector<std::unique_ptr<char[]>> blocks;
  for (int i = 0; i < 200; ++i) {
    blocks.emplace_back(new char[100 + 37 * static_cast<size_t>(i)]);
    std::memset(blocks.back().get(), i, 100);
  }
  for (int i = 0; i < 200; i += 3) {
    const auto shared = memory->share(address_of(blocks[static_cast<size_t>(i)].get()), 100, true);
    ASSERT_TRUE(shared);
    EXPECT_EQ(shared->size(), 100U) << i;
  }
  for (int i = 0; i < 200; ++i) EXPECT_EQ(blocks[static_cast<size_t>(i)][99], static_cast<char>(i));
  for (int i = 0; i < 200; i += 3) memory->unshare(address_of(blocks[static_cast<size_t>(i)].get()), 100);
  EXPECT_EQ(memory->usage().pinned_bytes, 0U);
}

TEST(Share, TwiceMovesNothingAndCostsMicroseconds) {
  auto memory = make_memory();
  Region region(64 * mebibyte);
  fill(region.data(), region.size(), 3);
  ASSERT_TRUE(memory->share(region.address(), region.size(), true));
  const auto before = memory->usage();
  const auto start = std::chrono::steady_clock::now();
  constexpr int rounds = 1000;
  for (int i = 0; i < rounds; ++i) {
    const auto shared = memory->share(region.address(), region.size(), true);
    ASSERT_TRUE(shared);
    ASSERT_EQ(shared->size(), region.size());
    memory->unshare(region.address(), region.size());
  }
  const std::chrono::duration<double, std::micro> spent = std::chrono::steady_clock::now() - start;
  EXPECT_LT(spent.count() / rounds, sanitized ? 2000 : 200);
  EXPECT_EQ(memory->usage().file_bytes, before.file_bytes);
  EXPECT_EQ(memory->usage().pinned_bytes, region.size());
}

TEST(Share, OverlappingPartsCountAlone) {
  auto memory = make_memory();
  Region region(16 * page);
  fill(region.data(), region.size(), 4);
  ASSERT_TRUE(memory->share(region.address(), 8 * page, true));
  const auto whole = memory->share(region.address() + 4 * page, 12 * page, true);
  ASSERT_TRUE(whole);
  EXPECT_EQ(whole->size(), 12 * page);
  EXPECT_EQ(memory->usage().pieces, 1U);
  EXPECT_EQ(memory->usage().pinned_bytes, 16 * page);
  memory->unshare(region.address(), 8 * page);
  EXPECT_EQ(memory->usage().pinned_bytes, 12 * page);
  memory->unshare(region.address() + 4 * page, 12 * page);
  EXPECT_EQ(memory->usage().pinned_bytes, 0U);
  EXPECT_EQ(memory->usage().shared_bytes, 16 * page);
  EXPECT_EQ(first_difference(region.data(), region.size(), 4), -1);
}

TEST(Share, UntouchedPagesTakeNoMemory) {
  auto memory = make_memory();
  Region region(256 * mebibyte);
  ::madvise(region.data(), region.size(), MADV_NOHUGEPAGE);
  region.data()[100 * mebibyte] = 'x';
  static_cast<void>(*static_cast<volatile char*>(region.data() + 50 * mebibyte));  // read only: the page of zeros
  const auto shared = memory->share(region.address(), region.size(), true);
  ASSERT_TRUE(shared);
  EXPECT_EQ(shared->size(), region.size());
  EXPECT_LE(memory->usage().file_bytes, 4 * page);
  EXPECT_EQ(region.data()[100 * mebibyte], 'x');
  PeerView peer(*memory, region.address(), region.size());
  peer.data()[200 * mebibyte] = 'y';
  EXPECT_EQ(region.data()[200 * mebibyte], 'y');
}

// Where the machine is busy, the mover lets it be; so only contents are sure.
TEST(Share, HugePagesStayHuge) {
  auto memory = make_memory();
  Region region(48 * mebibyte);
  ::madvise(region.data(), region.size(), MADV_HUGEPAGE);
  fill(region.data(), region.size(), 5);
  const u64 before = figure("/proc/self/smaps", "AnonHugePages:");
  if (before < 8 * mebibyte) GTEST_SKIP() << "the system gives no transparent huge pages";
  ASSERT_TRUE(memory->share(region.address(), region.size(), true));
  EXPECT_EQ(first_difference(region.data(), region.size(), 5), -1);
  const u64 after = figure("/proc/self/smaps", "ShmemPmdMapped:");
  // A matter of speed that depends on what else the machine does: reported, not asserted.
  if (after < 32 * mebibyte)
    GTEST_SKIP() << "a busy machine, or a kernel that makes no huge pages in memory files (before 6.1)";
}

TEST(Share, AnswersBadRangesAsTheKernelDoes) {
  auto memory = make_memory();
  Region region(4 * page);
  EXPECT_EQ(memory->share(~u64{0} - 10, 100, true).error(), Errno{EINVAL});
  EXPECT_EQ(memory->share(~u64{0} - 10, 5, true).error(), Errno{EINVAL});
  const auto nothing = memory->share(region.address() + 5, 0, true);
  ASSERT_TRUE(nothing);
  EXPECT_TRUE(nothing->empty());
  EXPECT_EQ(memory->share(region.address(), 5 * page, true).error(), Errno{EFAULT});
  EXPECT_EQ(memory->share(region.address() - 10, page, true).error(), Errno{EFAULT});
  EXPECT_EQ(memory->share(0, page, true).error(), Errno{EFAULT});
  EXPECT_EQ(memory->share(u64{1} << 60, page, true).error(), Errno{EFAULT});
  EXPECT_EQ(memory->usage().pinned_bytes, 0U);
}

TEST(Share, HolesAreFaults) {
  auto memory = make_memory();
  Region region(4 * page);
  ::munmap(region.data() + page, page);
  EXPECT_EQ(memory->share(region.address(), 4 * page, true).error(), Errno{EFAULT});
  EXPECT_EQ(memory->usage().shared_bytes, 0U);
}

TEST(Share, ReadOnlyMemoryTakesNoWritesAndStays) {
  auto memory = make_memory();
  Region region(4 * page);
  fill(region.data(), region.size(), 6);
  ::mprotect(region.data(), region.size(), PROT_READ);
  EXPECT_EQ(memory->share(region.address(), region.size(), true).error(), Errno{EFAULT});
  const auto shared = memory->share(region.address(), region.size(), false);
  ASSERT_TRUE(shared);
  EXPECT_TRUE(shared->empty());
  ::mprotect(region.data(), region.size(), PROT_NONE);
  EXPECT_EQ(memory->share(region.address(), region.size(), false).error(), Errno{EFAULT});
}

TEST(Share, KeepsProtectionGivenLater) {
  auto memory = make_memory();
  Region region(4 * page);
  fill(region.data(), region.size(), 7);
  ASSERT_TRUE(memory->share(region.address(), region.size(), true));
  ASSERT_EQ(::mprotect(region.data() + page, page, PROT_READ), 0);
  EXPECT_EQ(memory->share(region.address(), region.size(), true).error(), Errno{EFAULT});
  const auto shared = memory->share(region.address(), region.size(), false);
  ASSERT_TRUE(shared);
  EXPECT_EQ(shared->size(), region.size());
  PeerView peer(*memory, region.address(), region.size());
  peer.data()[page] = 'd';  // a device doesn't know of page protection
  EXPECT_EQ(region.data()[page], 'd');
}

TEST(Share, LeavesFilesAndForeignSharedMemoryAlone) {
  auto memory = make_memory();
  const int fd = ::memfd_create("other", 0);
  ASSERT_EQ(::ftruncate(fd, 4 * page), 0);
  for (const int flags : {MAP_SHARED, MAP_PRIVATE}) {
    Region region(4 * page, PROT_READ | PROT_WRITE, flags, fd);
    const auto shared = memory->share(region.address(), region.size(), true);
    ASSERT_TRUE(shared);
    EXPECT_TRUE(shared->empty());
  }
  Region common(4 * page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS);
  const auto shared = memory->share(common.address(), common.size(), true);
  ASSERT_TRUE(shared);
  EXPECT_TRUE(shared->empty());
  ::close(fd);
  EXPECT_EQ(memory->usage().shared_bytes, 0U);
}

TEST(Share, LeavesHugetlbAlone) {
  void* place = ::mmap(nullptr, 2 * mebibyte, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);
  if (place == MAP_FAILED) GTEST_SKIP() << "no huge pages reserved on this machine";
  auto memory = make_memory();
  const auto shared = memory->share(address_of(place), 2 * mebibyte, true);
  ASSERT_TRUE(shared);
  EXPECT_TRUE(shared->empty());
  ::munmap(place, 2 * mebibyte);
}

TEST(Share, GivesTheLargestRunOfAMixture) {
  auto memory = make_memory();
  Region region(10 * page);
  fill(region.data(), region.size(), 8);
  // Pages 3 is read-only; the run behind it is the larger.
  ::mprotect(region.data() + 3 * page, page, PROT_READ);
  const auto shared = memory->share(region.address(), region.size(), false);
  ASSERT_TRUE(shared);
  EXPECT_EQ(shared->begin, region.address() + 4 * page);
  EXPECT_EQ(shared->end, region.address() + 10 * page);
  EXPECT_EQ(first_difference(region.data(), region.size(), 8), -1);
}

TEST(Share, LeavesTheStackAlone) {
  auto memory = make_memory();
  constexpr size_t size = 3 * page;
  void* here = __builtin_alloca(size);  // an array would lie elsewhere under the address sanitizer
  std::memset(here, 1, size);
  const auto shared = memory->share(address_of(here), size, true);
  ASSERT_TRUE(shared);
  EXPECT_TRUE(shared->empty());
  EXPECT_EQ(memory->usage().shared_bytes, 0U);
  memory->unshare(address_of(here), size);
}

// The buffer stands on another thread's stack; the test's thread registers it, and one mapped right above that stack.
TEST(Share, LeavesStacksOfThreadsAlone) {
  auto memory = make_memory();
  int ready[2];
  int done[2];
  ASSERT_EQ(::pipe(ready) | ::pipe(done), 0);
  std::thread other([&] {
    char here[16 * page];
    std::memset(here, 2, sizeof here);
    const u64 address = address_of(here);
    ASSERT_EQ(::write(ready[1], &address, sizeof address), static_cast<ssize_t>(sizeof address));
    char byte;
    ASSERT_EQ(::read(done[0], &byte, 1), 1);
    EXPECT_EQ(here[page], 2);
  });
  u64 address = 0;
  ASSERT_EQ(::read(ready[0], &address, sizeof address), static_cast<ssize_t>(sizeof address));
  const auto shared = memory->share(address, 16 * page, true);
  ASSERT_TRUE(shared);
  EXPECT_TRUE(shared->empty());
  EXPECT_EQ(memory->usage().shared_bytes, 0U);
  memory->unshare(address, 16 * page);
  ASSERT_EQ(::write(done[1], "", 1), 1);
  other.join();
}

TEST(Share, LeavesAThreadsOwnVariablesAlone) {
  auto memory = make_memory();
  static thread_local char mine[2 * page];
  std::memset(mine, 3, sizeof mine);
  const u64 block = reinterpret_cast<u64>(__builtin_thread_pointer());
  const auto shared = memory->share(block - 64, 128, true);
  ASSERT_TRUE(shared);
  EXPECT_TRUE(shared->empty());
  errno = 5;
  EXPECT_EQ(errno, 5);
  EXPECT_EQ(mine[page], 3);
}

TEST(Share, MovesMallocedMemoryOfThreads) {
  if (!can_hold_writers()) GTEST_SKIP() << "no userfaultfd here";
  auto memory = make_memory();
  std::thread([&] {
    std::unique_ptr<char[]> block(new char[50'000]);  // from the thread's arena, which has a reserve above it
    std::memset(block.get(), 4, 50'000);
    const auto shared = memory->share(address_of(block.get()), 50'000, true);
    ASSERT_TRUE(shared);
    EXPECT_GE(shared->size(), 50'000 - 2 * page);
    EXPECT_EQ(block[49'999], 4);
    memory->unshare(address_of(block.get()), 50'000);
  }).join();
}

// A buffer of io_uring is pinned: the kernel writes to the old pages whatever is mapped there by then.
TEST(Share, MovesNothingWhileMemoryIsPinned) {
  io_uring_params parameters{};
  const int ring = static_cast<int>(::syscall(SYS_io_uring_setup, 4, &parameters));
  if (ring < 0) GTEST_SKIP() << "no io_uring here";
  auto memory = make_memory();
  Region pinned(4 * page);
  fill(pinned.data(), pinned.size(), 9);
  iovec piece{pinned.data(), pinned.size()};
  ASSERT_EQ(::syscall(SYS_io_uring_register, ring, IORING_REGISTER_BUFFERS, &piece, 1), 0);
  if (figure("/proc/self/status", "VmPin:") == 0) GTEST_SKIP() << "the kernel does not count these pages";
  const auto shared = memory->share(pinned.address(), pinned.size(), true);
  ASSERT_TRUE(shared);
  EXPECT_TRUE(shared->empty());
  memory->unshare(pinned.address(), pinned.size());
  ::close(ring);
  for (int i = 0; i < 200 && figure("/proc/self/status", "VmPin:") != 0; ++i) ::usleep(10'000);
  EXPECT_EQ(memory->share(pinned.address(), pinned.size(), true)->size(), pinned.size());
}

// Memory that a graphics driver has pinned can't be told from other; so none is moved once such a driver is loaded.
TEST(Share, MovesNothingBesideAGraphicsDriver) {
  auto memory = make_memory();
  Region early(4 * page);
  Region late(4 * page);
  ASSERT_EQ(memory->share(early.address(), early.size(), true)->size(), early.size());
  void* library = ::dlopen(PINNING_LIBRARY, RTLD_NOW);
  ASSERT_NE(library, nullptr) << ::dlerror();
  EXPECT_TRUE(memory->share(late.address(), late.size(), true)->empty());
  EXPECT_EQ(memory->share(early.address(), early.size(), true)->size(), early.size());
  memory->unshare(late.address(), late.size());
  ::dlclose(library);
  EXPECT_EQ(memory->share(late.address(), late.size(), true)->size(), late.size());
}

TEST(Share, LockedMemoryStaysLocked) {
  auto memory = make_memory();
  Region region(8 * page);
  Region other(8 * page);
  fill(region.data(), region.size(), 10);
  ASSERT_EQ(::syscall(SYS_mlock, region.data(), region.size()), 0);
  ASSERT_EQ(figure("/proc/self/status", "VmLck:"), region.size());
  ASSERT_EQ(memory->share(region.address(), region.size(), true)->size(), region.size());
  EXPECT_EQ(figure("/proc/self/status", "VmLck:"), region.size());
  ASSERT_EQ(memory->share(other.address(), other.size(), true)->size(), other.size());
  EXPECT_EQ(figure("/proc/self/status", "VmLck:"), region.size());
  EXPECT_EQ(first_difference(region.data(), region.size(), 10), -1);
}

TEST(Share, PagesRegisteredUnmovedAreNotMovedLater) {
  auto memory = make_memory();
  Region region(4 * page);
  ::mprotect(region.data(), region.size(), PROT_READ);
  ASSERT_TRUE(memory->share(region.address(), region.size(), false)->empty());
  ::mprotect(region.data(), region.size(), PROT_READ | PROT_WRITE);
  EXPECT_TRUE(memory->share(region.address(), region.size(), true)->empty());
  memory->unshare(region.address(), region.size());
  memory->unshare(region.address(), region.size());
  EXPECT_EQ(memory->share(region.address(), region.size(), true)->size(), region.size());
}

TEST(Share, ManyAdjacentRegistrationsAreOneRun) {
  auto memory = make_memory();
  constexpr u64 count = sanitized ? 10'000 : 70'000;  // more than a process may have mappings (65,530)
  Region region(count * page);
  const auto start = std::chrono::steady_clock::now();
  for (u64 i = 0; i < count; ++i) {
    *reinterpret_cast<u64*>(region.data() + i * page) = i;
    const auto shared = memory->share(region.address() + i * page, page, true);
    ASSERT_TRUE(shared);
    ASSERT_EQ(shared->size(), page);
  }
  const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
  RecordProperty("microseconds_each", std::to_string(spent.count() * 1e6 / count));
  EXPECT_EQ(memory->usage().pieces, 1U);
  EXPECT_EQ(memory->usage().pinned_bytes, count * page);
  for (u64 i = 0; i < count; ++i) ASSERT_EQ(*reinterpret_cast<u64*>(region.data() + i * page), i);
  for (u64 i = 0; i < count; ++i) memory->unshare(region.address() + i * page, page);
  EXPECT_EQ(memory->usage().pinned_bytes, 0U);
}

TEST(Share, TooManyPiecesStayWhereTheyAre) {
  auto memory = make_memory();
  constexpr u64 count = 20'000;
  Region region(2 * count * page);
  u64 moved = 0;
  for (u64 i = 0; i < count; ++i) {
    region.data()[2 * i * page] = static_cast<char>(i);
    const auto shared = memory->share(region.address() + 2 * i * page, page, true);
    ASSERT_TRUE(shared);
    moved += shared->size() / page;
  }
  EXPECT_LT(moved, 17'000U);
  EXPECT_GT(moved, 10'000U);
  EXPECT_EQ(memory->usage().pieces, moved);
  for (u64 i = 0; i < count; ++i) ASSERT_EQ(region.data()[2 * i * page], static_cast<char>(i));
  void* more = ::mmap(nullptr, page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  EXPECT_NE(more, MAP_FAILED);
  ::munmap(more, page);
}

TEST(Share, DoesNothingToAFileThatTookItsDescriptor) {
  EXPECT_EQ(in_child([]() -> std::string {
              auto memory = make_memory();
              Region region(4 * page);
              fill(region.data(), region.size(), 11);
              const int number = memory->fd();
              const int file = ::memfd_create("of the program", 0);
              if (::dup2(file, number) != number) return "dup2";  // as after a daemon has closed all there was
              const auto shared = memory->share(region.address(), region.size(), true);
              if (!shared || !shared->empty()) return "moved onto a foreign file";
              if (::lseek(file, 0, SEEK_END) != 0) return "wrote to a foreign file";
              return first_difference(region.data(), region.size(), 11) == -1 ? "" : "contents lost";
            }),
            "");
}

}  // namespace
}  // namespace softib::hca::testing
