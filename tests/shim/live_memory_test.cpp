// Registered memory under the preload library: what the program's own calls do to it.
#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <malloc.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "base/types.h"

namespace softib::tests {
namespace {

constexpr size_t block_size = 4 << 20;

// A handler that the program registered before it opened any device, as allocators and run-time libraries do.
char* scribble_on = nullptr;
void scribble() {
  if (scribble_on) std::memset(scribble_on, 'c', block_size);
}
[[gnu::constructor]] void watch_forks_early() { ::pthread_atfork(nullptr, nullptr, scribble); }

struct LiveMemory : testing::Test {
  void SetUp() override {
    ibv_device** list = ::ibv_get_device_list(nullptr);
    context = list && list[0] ? ::ibv_open_device(list[0]) : nullptr;
    ::ibv_free_device_list(list);
    ASSERT_TRUE(context);
    pd = ::ibv_alloc_pd(context);
    ASSERT_TRUE(pd);
  }
  void TearDown() override {
    if (pd) ::ibv_dealloc_pd(pd);
    if (context) ::ibv_close_device(context);
  }
  ibv_mr* pin(void* data, size_t size) const { return ::ibv_reg_mr(pd, data, size, IBV_ACCESS_LOCAL_WRITE); }
  // Registers and deregisters: the pages are on the memory file from then on.
  void share(void* data, size_t size) const {
    ibv_mr* mr = pin(data, size);
    ASSERT_TRUE(mr);
    ASSERT_EQ(::ibv_dereg_mr(mr), 0);
  }

  ibv_context* context = nullptr;
  ibv_pd* pd = nullptr;
};

bool filled(const char* data, size_t size, char with) {
  for (size_t i = 0; i < size; ++i) {
    if (data[i] != with) return false;
  }
  return true;
}

// glibc grows large blocks by an mremap of its own.
TEST_F(LiveMemory, GrownBlocksStayApart) {
  ::mallopt(M_MMAP_THRESHOLD, block_size / 2);
  for (size_t registered : {block_size, block_size / 4}) {
    std::vector<char*> blocks;
    for (char c = 'a'; c < 'i'; ++c) {
      blocks.push_back(static_cast<char*>(std::malloc(block_size)));
      std::memset(blocks.back(), c, block_size);
      share(blocks.back() + block_size - registered, registered);  // all of it, or its end
    }
    for (size_t i = 0; i < blocks.size(); i += 2) {
      blocks[i] = static_cast<char*>(i % 4 ? ::reallocarray(blocks[i], 3, block_size)
                                           : std::realloc(blocks[i], 3 * block_size));
      ASSERT_TRUE(blocks[i]);
      std::memset(blocks[i] + block_size, 'z', 2 * block_size);
    }
    for (size_t i = 0; i < blocks.size(); ++i) EXPECT_TRUE(filled(blocks[i], block_size, static_cast<char>('a' + i)));
    for (char* block : blocks) std::free(block);
  }
}

TEST_F(LiveMemory, ABlockThatShrinksKeepsItsBeginning) {
  char* block = static_cast<char*>(std::malloc(block_size));
  std::memset(block, 's', block_size);
  share(block, block_size);
  block = static_cast<char*>(std::realloc(block, block_size / 8));
  ASSERT_TRUE(block);
  EXPECT_TRUE(filled(block, block_size / 8, 's'));
  EXPECT_EQ(std::realloc(block, 0), nullptr);  // frees
}

// The child's handlers run before fork() returns there; what they write is the child's own already.
TEST_F(LiveMemory, AForkHandlerWritesToTheChildsCopy) {
  void* place = ::mmap(nullptr, block_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(place, MAP_FAILED);
  char* data = static_cast<char*>(place);
  std::memset(data, 'p', block_size);
  ibv_mr* mr = pin(data, block_size);
  ASSERT_TRUE(mr);
  scribble_on = data;
  pid_t child = ::fork();
  if (child == 0) ::_exit(filled(data, block_size, 'c') ? 0 : 1);
  scribble_on = nullptr;
  int status = -1;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(filled(data, block_size, 'p'));
  EXPECT_EQ(::ibv_dereg_mr(mr), 0);
  ::munmap(place, block_size);
}

}  // namespace
}  // namespace softib::tests
