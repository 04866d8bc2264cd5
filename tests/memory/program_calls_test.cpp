// madvise, munmap, mmap, mremap, mprotect, malloc and free over memory that is on the file.
#include <fcntl.h>
#include <malloc.h>

#include <cstdlib>
#include <memory>
#include <thread>
#include <vector>

#include "memory/support.h"

namespace softib::hca::testing {
namespace {

// The calls as the preload library makes them.
int madvise_with(ProcessMemory& memory, void* address, u64 length, int advice) {
  if (const auto done = memory.on_madvise(address, length, advice)) return *done;
  return ::madvise(address, length, advice);
}

int munmap_with(ProcessMemory& memory, void* address, u64 length) {
  const int result = ::munmap(address, length);
  if (result == 0) memory.after_unmap(address_of(address), length);
  return result;
}

void* mremap_with(ProcessMemory& memory, void* old, u64 old_size, u64 new_size, int flags, void* target = nullptr) {
  if (const auto done = memory.on_mremap(old, old_size, new_size, flags, target)) return *done;
  void* result = ::mremap(old, old_size, new_size, flags, target);
  if (result != MAP_FAILED) memory.after_unmap(address_of(old), old_size);
  return result;
}

class Shared : public ::testing::Test {
 protected:
  // Registers a region of its own, holding a pattern, and ends the registration unless it is to stay.
  void share(const Region& region, bool keep = false) {
    fill(region.data(), region.size(), 1);
    const auto shared = memory_->share(region.address(), region.size(), true);
    ASSERT_TRUE(shared);
    ASSERT_EQ(shared->size(), region.size());
    if (!keep) memory_->unshare(region.address(), region.size());
  }
  [[nodiscard]] u64 file_bytes() const { return memory_->usage().file_bytes; }

  std::unique_ptr<ProcessMemory> memory_ = make_memory();
};

using Madvise = Shared;

TEST_F(Madvise, DroppedPagesReadAsZero) {
  for (const int advice : {MADV_DONTNEED, MADV_FREE, MADV_REMOVE}) {
    Region region(16 * page);
    share(region, true);
    PeerView peer(*memory_, region.address(), region.size());
    ASSERT_EQ(madvise_with(*memory_, region.data() + 2 * page, 3 * page, advice), 0);
    EXPECT_TRUE(all_zero(region.data() + 2 * page, 3 * page));
    EXPECT_TRUE(all_zero(peer.data() + 2 * page, 3 * page));
    EXPECT_EQ(first_difference(region.data(), 2 * page, 1), -1);
    peer.data()[3 * page] = 'p';  // both go on seeing the same
    EXPECT_EQ(region.data()[3 * page], 'p');
    memory_->unshare(region.address(), region.size());
    munmap_with(*memory_, region.data(), region.size());
  }
  EXPECT_EQ(file_bytes(), 0U);
}

TEST_F(Madvise, DroppedHugePagesReadAsZeroInPart) {
  Region region(8 * mebibyte);
  share(region);
  ASSERT_EQ(madvise_with(*memory_, region.data() + 3 * mebibyte + 5 * page, page, MADV_DONTNEED), 0);
  EXPECT_TRUE(all_zero(region.data() + 3 * mebibyte + 5 * page, page));
  EXPECT_NE(region.data()[3 * mebibyte + 4 * page + 1], 0);
  EXPECT_NE(region.data()[3 * mebibyte + 6 * page + 1], 0);
}

TEST_F(Madvise, MixedRangesAreDroppedWhole) {
  Region region(8 * page);
  fill(region.data(), region.size(), 2);
  ASSERT_TRUE(memory_->share(region.address() + 2 * page, 2 * page, true));
  ASSERT_EQ(madvise_with(*memory_, region.data(), region.size(), MADV_DONTNEED), 0);
  EXPECT_TRUE(all_zero(region.data(), region.size()));
}

TEST_F(Madvise, ErrorsAreTheKernels) {
  Region region(4 * page);
  share(region);
  EXPECT_EQ(madvise_with(*memory_, region.data() + 1, page, MADV_DONTNEED), -1);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(first_difference(region.data(), region.size(), 1), -1);
  ::munmap(region.data() + page, page);
  errno = 0;
  EXPECT_EQ(madvise_with(*memory_, region.data(), region.size(), MADV_DONTNEED), -1);
  EXPECT_EQ(errno, ENOMEM);
  EXPECT_TRUE(all_zero(region.data() + 2 * page, 2 * page));
}

TEST_F(Madvise, OtherAdviceAndOtherMemoryGoToTheKernel) {
  Region region(4 * page);
  Region plain(4 * page);
  share(region);
  EXPECT_EQ(memory_->on_madvise(region.data(), region.size(), MADV_WILLNEED), std::nullopt);
  EXPECT_EQ(memory_->on_madvise(region.data(), region.size(), MADV_HUGEPAGE), std::nullopt);
  EXPECT_EQ(memory_->on_madvise(plain.data(), plain.size(), MADV_DONTNEED), std::nullopt);
}

// A thread's arena: glibc gives its pages back by a madvise of its own, which nobody sees.
TEST_F(Madvise, CallocInThreadArenasGivesZeros) {
  if (!can_hold_writers()) GTEST_SKIP() << "no userfaultfd here";
  std::thread([&] {
    ::mallopt(M_TRIM_THRESHOLD, 64 * 1024);
    u64 moved = 0;
    for (int round = 0; round < 30; ++round) {
      std::vector<char*> blocks;
      for (int i = 0; i < 100; ++i) {
        blocks.push_back(static_cast<char*>(std::malloc(100'000)));
        std::memset(blocks.back(), 0x5A, 100'000);
        const auto shared = memory_->share(address_of(blocks.back()), 100'000, true);
        ASSERT_TRUE(shared);
        moved += shared->size();
        memory_->unshare(address_of(blocks.back()), 100'000);
      }
      while (!blocks.empty()) {  // from the top of the heap down, so that it shrinks
        std::free(blocks.back());
        blocks.pop_back();
      }
      for (int i = 0; i < 100; ++i) {
        blocks.push_back(static_cast<char*>(std::calloc(1, 100'000)));
        ASSERT_TRUE(all_zero(blocks.back(), 100'000)) << "round " << round << " block " << i;
      }
      for (char* block : blocks) std::free(block);
    }
    EXPECT_GT(moved, 30U * 100 * 50'000);
  }).join();
  if (!sanitized) {
    EXPECT_LT(file_bytes(), 128 * mebibyte);
  }
}

TEST_F(Madvise, CallocOnTheMainHeapGivesZerosAfterATrim) {
  std::vector<char*> blocks;
  for (int round = 0; round < 10; ++round) {
    for (int i = 0; i < 100; ++i) {
      blocks.push_back(static_cast<char*>(std::malloc(60'000)));
      std::memset(blocks.back(), 0x5A, 60'000);
      ASSERT_TRUE(memory_->share(address_of(blocks.back()), 60'000, true));
      memory_->unshare(address_of(blocks.back()), 60'000);
    }
    for (; !blocks.empty(); blocks.pop_back()) std::free(blocks.back());
    ::malloc_trim(0);
    for (int i = 0; i < 100; ++i) {
      blocks.push_back(static_cast<char*>(std::calloc(1, 60'000)));
      ASSERT_TRUE(all_zero(blocks.back(), 60'000));
    }
    for (; !blocks.empty(); blocks.pop_back()) std::free(blocks.back());
  }
}

using Unmap = Shared;

TEST_F(Unmap, GivesThePagesBack) {
  Region region(64 * page);
  share(region);
  EXPECT_EQ(file_bytes(), region.size());
  ASSERT_EQ(munmap_with(*memory_, region.data() + 16 * page, 16 * page), 0);
  EXPECT_EQ(file_bytes(), 48 * page);
  EXPECT_EQ(memory_->usage().shared_bytes, 48 * page);
  EXPECT_EQ(memory_->usage().pieces, 2U);
  ASSERT_EQ(munmap_with(*memory_, region.data(), region.size()), 0);
  EXPECT_EQ(file_bytes(), 0U);
  EXPECT_EQ(memory_->usage().shared_bytes, 0U);
}

TEST_F(Unmap, RegisteredPagesLiveUntilTheRegistrationEnds) {
  Region region(8 * page);
  share(region, true);
  PeerView peer(*memory_, region.address(), region.size());
  ASSERT_EQ(munmap_with(*memory_, region.data(), region.size()), 0);
  EXPECT_EQ(file_bytes(), region.size());
  EXPECT_EQ(first_difference(peer.data(), region.size(), 1), -1);  // as hardware would still see it
  memory_->unshare(region.address(), region.size());
  EXPECT_EQ(file_bytes(), 0U);
}

TEST_F(Unmap, NewMemoryAtARegisteredAddressIsNotTheOld) {
  Region region(8 * page);
  share(region, true);
  PeerView peer(*memory_, region.address(), region.size());
  ::munmap(region.data(), region.size());  // unseen, as by free()
  ASSERT_EQ(
      ::mmap(region.data(), region.size(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
      region.data());
  fill(region.data(), region.size(), 9);
  const auto again = memory_->share(region.address(), region.size(), true);
  ASSERT_TRUE(again);
  EXPECT_TRUE(again->empty());
  EXPECT_EQ(first_difference(region.data(), region.size(), 9), -1);
  EXPECT_EQ(first_difference(peer.data(), region.size(), 1), -1);
  memory_->unshare(region.address(), region.size());
  memory_->unshare(region.address(), region.size());
  const auto now = memory_->share(region.address(), region.size(), true);
  ASSERT_TRUE(now);
  EXPECT_EQ(now->size(), region.size());
  EXPECT_EQ(first_difference(region.data(), region.size(), 9), -1);
  EXPECT_EQ(first_difference(peer.data(), region.size(), 9), -1);
}

TEST_F(Unmap, MappingOverSharedPages) {
  Region region(8 * page);
  share(region);
  void* place = ::mmap(region.data() + 2 * page, 2 * page, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  ASSERT_EQ(place, region.data() + 2 * page);
  memory_->after_unmap(address_of(place), 2 * page);
  EXPECT_EQ(file_bytes(), 6 * page);
  EXPECT_TRUE(all_zero(place, 2 * page));
  const auto again = memory_->share(region.address(), region.size(), true);
  ASSERT_TRUE(again);
  EXPECT_EQ(again->size(), region.size());
  EXPECT_TRUE(all_zero(place, 2 * page));
}

TEST_F(Unmap, ALateNoteAboutPagesSharedAnewIsHarmless) {
  Region region(4 * page);
  share(region, true);
  memory_->after_unmap(region.address(), region.size());  // of an earlier mapping there
  EXPECT_EQ(first_difference(region.data(), region.size(), 1), -1);
  EXPECT_EQ(memory_->usage().shared_bytes, region.size());
}

using Mremap = Shared;

TEST_F(Mremap, Shrinks) {
  Region region(16 * page);
  share(region);
  EXPECT_EQ(mremap_with(*memory_, region.data(), region.size(), 4 * page, 0), region.data());
  EXPECT_EQ(file_bytes(), 4 * page);
  EXPECT_EQ(first_difference(region.data(), 4 * page, 1), -1);
}

TEST_F(Mremap, GrowsInPlaceWithZeros) {
  Region region(16 * page);
  ::munmap(region.data() + 8 * page, 8 * page);
  fill(region.data(), 8 * page, 3);
  ASSERT_TRUE(memory_->share(region.address(), 8 * page, true));
  // Something of a neighbour that was there before must not shine through.
  ASSERT_EQ(::pwrite(memory_->fd(), "old", 3, static_cast<off_t>(region.address() + 9 * page)), 3);
  ASSERT_EQ(mremap_with(*memory_, region.data(), 8 * page, 16 * page, 0), region.data());
  EXPECT_EQ(first_difference(region.data(), 8 * page, 3), -1);
  EXPECT_TRUE(all_zero(region.data() + 8 * page, 8 * page));
}

TEST_F(Mremap, WhatCannotGrowInPlaceFails) {
  Region region(8 * page);
  share(region);
  EXPECT_EQ(mremap_with(*memory_, region.data(), region.size(), 16 * page, 0), MAP_FAILED);
  EXPECT_EQ(errno, ENOMEM);
  EXPECT_EQ(first_difference(region.data(), region.size(), 1), -1);
}

// The neighbour's offsets follow those of the region: a mapping of the file that simply grew would show them.
TEST_F(Mremap, GrowsElsewhereWithoutTheNeighboursPages) {
  Region both(16 * page);
  share(both, true);
  auto* moved = static_cast<char*>(mremap_with(*memory_, both.data(), 8 * page, 16 * page, MREMAP_MAYMOVE));
  ASSERT_NE(moved, MAP_FAILED);
  ASSERT_NE(moved, both.data());
  EXPECT_EQ(first_difference(moved, 8 * page, 1), -1);
  EXPECT_TRUE(all_zero(moved + 8 * page, 8 * page));
  std::memset(moved, 'm', 16 * page);
  const auto* neighbour = reinterpret_cast<const u64*>(both.data() + 8 * page);
  EXPECT_EQ(neighbour[0], (8 * page / 8 + 1) * 0x9E3779B97F4A7C15 + 1);

  // Still registered: the device sees the same pages, wherever the program put them.
  PeerView peer(*memory_, both.address(), page);
  EXPECT_EQ(peer.data()[0], 'm');
  peer.data()[1] = 'd';
  EXPECT_EQ(moved[1], 'd');

  memory_->unshare(both.address(), both.size());
  EXPECT_EQ(moved[1], 'd');  // the pages stay while they are mapped
  EXPECT_EQ(moved[7 * page], 'm');
  munmap_with(*memory_, moved, 16 * page);
  munmap_with(*memory_, both.data(), both.size());
  EXPECT_EQ(file_bytes(), 0U);
}

TEST_F(Mremap, MovedPagesBehaveAsBefore) {
  Region region(8 * page);
  share(region);
  Region target(8 * page);
  ASSERT_EQ(mremap_with(*memory_, region.data(), 8 * page, 8 * page, MREMAP_MAYMOVE | MREMAP_FIXED, target.data()),
            target.data());
  EXPECT_EQ(first_difference(target.data(), 8 * page, 1), -1);

  // New memory at the old address may not come to lie on the same offsets.
  ASSERT_EQ(
      ::mmap(region.data(), region.size(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
      region.data());
  fill(region.data(), region.size(), 4);
  ASSERT_TRUE(memory_->share(region.address(), region.size(), true));
  EXPECT_EQ(first_difference(target.data(), 8 * page, 1), -1);
  EXPECT_EQ(first_difference(region.data(), 8 * page, 4), -1);

  ASSERT_EQ(madvise_with(*memory_, target.data() + page, page, MADV_DONTNEED), 0);
  EXPECT_TRUE(all_zero(target.data() + page, page));
  EXPECT_EQ(first_difference(region.data(), 8 * page, 4), -1);

  memory_->before_fork();
  const pid_t child = ::fork();
  if (child == 0) {
    memory_->after_fork_in_child();
    const bool same = first_difference(target.data(), page, 1) == -1;
    std::memset(target.data(), 'c', target.size());
    ::_exit(same ? 0 : 1);
  }
  memory_->after_fork_in_parent();
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(first_difference(target.data(), page, 1), -1);
}

TEST_F(Mremap, MovesWhatIsPartlyOnTheFile) {
  Region region(8 * page);
  fill(region.data(), region.size(), 5);
  ASSERT_TRUE(memory_->share(region.address() + 2 * page, 2 * page, true));
  auto* moved = static_cast<char*>(mremap_with(*memory_, region.data(), 8 * page, 12 * page, MREMAP_MAYMOVE));
  ASSERT_NE(moved, MAP_FAILED);
  EXPECT_EQ(first_difference(moved, 8 * page, 5), -1);
  EXPECT_TRUE(all_zero(moved + 8 * page, 4 * page));
  ::munmap(moved, 12 * page);
}

TEST_F(Mremap, LeavesZerosBehindIfAsked) {
  Region region(8 * page);
  share(region);
  auto* moved =
      static_cast<char*>(mremap_with(*memory_, region.data(), 8 * page, 8 * page, MREMAP_MAYMOVE | MREMAP_DONTUNMAP));
  ASSERT_NE(moved, MAP_FAILED);
  EXPECT_EQ(first_difference(moved, 8 * page, 1), -1);
  EXPECT_TRUE(all_zero(region.data(), 8 * page));
  region.data()[0] = 'x';
  EXPECT_NE(moved[0], 'x');
  ::munmap(moved, 8 * page);
}

TEST_F(Mremap, OntoSharedPages) {
  Region region(4 * page);
  Region plain(4 * page);
  share(region);
  fill(plain.data(), plain.size(), 6);
  ASSERT_EQ(mremap_with(*memory_, plain.data(), 4 * page, 4 * page, MREMAP_MAYMOVE | MREMAP_FIXED, region.data()),
            region.data());
  EXPECT_EQ(first_difference(region.data(), 4 * page, 6), -1);
  EXPECT_EQ(file_bytes(), 0U);
}

TEST_F(Mremap, BadRequestsAreRefused) {
  Region region(4 * page);
  share(region);
  for (const int flags : {MREMAP_FIXED, 64, MREMAP_MAYMOVE | MREMAP_FIXED}) {
    EXPECT_EQ(mremap_with(*memory_, region.data(), 4 * page, 4 * page, flags, region.data() + page), MAP_FAILED);
    EXPECT_EQ(errno, EINVAL) << flags;
  }
  EXPECT_EQ(mremap_with(*memory_, region.data(), 4 * page, 0, 0), MAP_FAILED);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(mremap_with(*memory_, region.data(), 64 * page, 65 * page, MREMAP_MAYMOVE), MAP_FAILED);
  EXPECT_EQ(errno, EFAULT);
  EXPECT_EQ(first_difference(region.data(), region.size(), 1), -1);
}

// realloc() as the preload library does it: a block on the file is copied, never grown by glibc's own mremap.
void* realloc_with(ProcessMemory& memory, void* block, size_t size) {
  if (!memory.holds(block, ::malloc_usable_size(block))) return std::realloc(block, size);
  void* copy = std::malloc(size);
  std::memcpy(copy, block, std::min(size, ::malloc_usable_size(block)));
  std::free(block);
  return copy;
}

TEST_F(Mremap, ReallocKeepsBlocksApart) {
  constexpr size_t size = 4 << 20;
  ::malloc_trim(0);  // so that the blocks don't come from the heap of an earlier test
  ::mallopt(M_MMAP_THRESHOLD, size / 2);
  std::vector<char*> blocks;
  for (u64 i = 0; i < 8; ++i) {
    blocks.push_back(static_cast<char*>(std::malloc(size)));
    fill(blocks.back(), size, i);
    ASSERT_TRUE(memory_->share(address_of(blocks.back()), size, true));
    memory_->unshare(address_of(blocks.back()), size);
    ASSERT_TRUE(memory_->holds(blocks.back(), 1));
  }
  for (u64 i = 0; i < 8; i += 2) {
    blocks[i] = static_cast<char*>(realloc_with(*memory_, blocks[i], 3 * size));
    std::memset(blocks[i] + size, 'g', 2 * size);
  }
  for (u64 i = 0; i < 8; ++i) EXPECT_EQ(first_difference(blocks[i], size, i), -1) << i;
  for (char* block : blocks) std::free(block);
}

using Garbage = Shared;

// free() unmaps large blocks inside the C library.
TEST_F(Garbage, FreedBlocksDoNotPileUp) {
  u64 most = 0;
  for (int i = 0; i < 60; ++i) {
    const size_t size = (16 + 7 * static_cast<size_t>(i % 9)) << 20;
    auto* block = static_cast<char*>(std::malloc(size));
    for (size_t at = 0; at < size; at += page) block[at] = static_cast<char>(i);
    ASSERT_TRUE(memory_->share(address_of(block), size, true));
    for (size_t at = 0; at < size; at += page) ASSERT_EQ(block[at], static_cast<char>(i));
    memory_->unshare(address_of(block), size);
    most = std::max(most, file_bytes());
    std::free(block);
  }
  if (!sanitized) {
    EXPECT_LT(most, 250 * mebibyte);
  }
}

TEST_F(Garbage, SmallFreedBlocksDoNotPileUp) {
  u64 most = 0;
  for (int i = 0; i < 3000; ++i) {
    const size_t size = 140'000 + 4096 * static_cast<size_t>(i % 50);
    auto* block = static_cast<char*>(std::malloc(size));
    std::memset(block, i, size);
    ASSERT_TRUE(memory_->share(address_of(block), size, true));
    memory_->unshare(address_of(block), size);
    most = std::max(most, file_bytes());
    std::free(block);
  }
  if (!sanitized) {
    EXPECT_LT(most, 80 * mebibyte);
  }
}

TEST_F(Garbage, LiveUnregisteredPagesSurviveTheSweep) {
  std::vector<std::unique_ptr<Region>> regions;
  for (u64 i = 0; i < 40; ++i) {
    regions.push_back(std::make_unique<Region>(8 * mebibyte));
    share(*regions.back());
  }
  for (u64 i = 0; i < 40; i += 2) ::munmap(regions[i]->data(), regions[i]->size());
  Region last(page);
  for (int i = 0; i < 600; ++i) share(last);
  EXPECT_LE(file_bytes(), 20 * 8 * mebibyte + page);
  for (u64 i = 1; i < 40; i += 2) ASSERT_EQ(first_difference(regions[i]->data(), regions[i]->size(), 1), -1);
}

}  // namespace
}  // namespace softib::hca::testing
