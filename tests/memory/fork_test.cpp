// fork(): two programs, two memories.
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include <atomic>
#include <csignal>
#include <memory>
#include <thread>
#include <vector>

#include "memory/support.h"

namespace softib::hca::testing {
namespace {

// fork() as the preload library does it.
pid_t fork_with(ProcessMemory& memory) {
  memory.before_fork();
  const pid_t child = ::fork();
  if (child == 0)
    memory.after_fork_in_child();
  else
    memory.after_fork_in_parent();
  return child;
}

int exit_status(pid_t child) {
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + status;
}

bool in_maps(u64 address) {
  FILE* maps = std::fopen("/proc/self/maps", "r");
  unsigned long begin = 0;
  unsigned long end = 0;
  bool found = false;
  while (!found && std::fscanf(maps, "%lx-%lx%*[^\n]", &begin, &end) == 2) found = begin <= address && address < end;
  std::fclose(maps);
  return found;
}

TEST(Fork, TheChildHasItsOwnCopy) {
  auto memory = make_memory();
  Region region(40 * page);
  fill(region.data(), region.size(), 1);
  ASSERT_EQ(memory->share(region.address(), region.size(), true)->size(), region.size());
  int go[2];
  int seen[2];
  ASSERT_EQ(::pipe(go) | ::pipe(seen), 0);
  const pid_t child = fork_with(*memory);
  if (child == 0) {
    char byte = 0;
    if (::read(go[0], &byte, 1) != 1) ::_exit(9);  // the parent has written by now
    if (first_difference(region.data(), region.size(), 1) != -1) ::_exit(1);
    std::memset(region.data(), 'c', region.size());
    if (::write(seen[1], &byte, 1) != 1) ::_exit(9);
    if (::read(go[0], &byte, 1) != 1) ::_exit(9);
    ::_exit(region.data()[5 * page] == 'c' ? 0 : 2);
  }
  std::memset(region.data(), 'p', region.size());
  char byte = 0;
  ASSERT_EQ(::write(go[1], &byte, 1), 1);
  ASSERT_EQ(::read(seen[0], &byte, 1), 1);
  EXPECT_EQ(region.data()[0], 'p');
  EXPECT_EQ(region.data()[39 * page], 'p');
  PeerView peer(*memory, region.address(), region.size());
  peer.data()[5 * page] = 'r';  // a peer still writes to the parent, and to nobody else
  EXPECT_EQ(region.data()[5 * page], 'r');
  ASSERT_EQ(::write(go[1], &byte, 1), 1);
  EXPECT_EQ(exit_status(child), 0);
}

TEST(Fork, HolesCopyAsZeros) {
  auto memory = make_memory();
  Region region(64 * mebibyte);
  ::madvise(region.data(), region.size(), MADV_NOHUGEPAGE);
  region.data()[40 * mebibyte] = 'x';
  ASSERT_TRUE(memory->share(region.address(), region.size(), true));
  const pid_t child = fork_with(*memory);
  if (child == 0)
    ::_exit(region.data()[40 * mebibyte] == 'x' && all_zero(region.data(), 30 * mebibyte) &&
                    figure("/proc/self/status", "RssShmem:") == 0
                ? 0
                : 1);
  EXPECT_EQ(exit_status(child), 0);
  EXPECT_LE(memory->usage().file_bytes, 4 * page);
}

TEST(Fork, ProtectionIsCopied) {
  auto memory = make_memory();
  Region region(4 * page);
  fill(region.data(), region.size(), 2);
  ASSERT_TRUE(memory->share(region.address(), region.size(), true));
  ::mprotect(region.data(), page, PROT_READ);
  const pid_t child = fork_with(*memory);
  if (child == 0) {
    if (first_difference(region.data(), region.size(), 2) != -1) ::_exit(1);
    ::signal(SIGSEGV, SIG_DFL);  // a sanitizer's handler would report it
    region.data()[page] = 1;
    region.data()[0] = 1;  // SIGSEGV
    ::_exit(2);
  }
  EXPECT_EQ(exit_status(child), 1000 + SIGSEGV);
}

TEST(Fork, PagesUnderDontforkAreAbsent) {
  auto memory = make_memory();
  Region before(4 * page);
  Region after(4 * page);
  fill(before.data(), before.size(), 3);
  fill(after.data(), after.size(), 4);
  // libibverbs does it before it registers (ibv_fork_init); a program may do it later.
  ASSERT_EQ(memory->on_madvise(before.data(), before.size(), MADV_DONTFORK), std::optional<int>(0));
  ASSERT_EQ(memory->share(before.address(), before.size(), true)->size(), before.size());
  ASSERT_EQ(memory->share(after.address(), after.size(), true)->size(), after.size());
  ASSERT_EQ(memory->on_madvise(after.data() + page, page, MADV_DONTFORK), std::optional<int>(0));
  const pid_t child = fork_with(*memory);
  if (child == 0)
    ::_exit((in_maps(before.address()) ? 1 : 0) + (in_maps(after.address() + page) ? 2 : 0) +
            (in_maps(after.address()) ? 0 : 4));
  EXPECT_EQ(exit_status(child), 0);
  EXPECT_EQ(first_difference(before.data(), before.size(), 3), -1);
  // And back again.
  ASSERT_EQ(memory->on_madvise(before.data(), before.size(), MADV_DOFORK), std::optional<int>(0));
  const pid_t second = fork_with(*memory);
  if (second == 0) ::_exit(first_difference(before.data(), before.size(), 3) == -1 ? 0 : 1);
  EXPECT_EQ(exit_status(second), 0);
}

TEST(Fork, WipedPagesAreNotMoved) {
  auto memory = make_memory();
  Region region(2 * page);
  fill(region.data(), region.size(), 5);
  ASSERT_EQ(memory->on_madvise(region.data(), page, MADV_WIPEONFORK), std::optional<int>(0));
  EXPECT_EQ(memory->share(region.address(), region.size(), true)->begin, region.address() + page);
  EXPECT_EQ(memory->on_madvise(region.data() + page, page, MADV_WIPEONFORK), std::optional<int>(-1));
  const pid_t child = fork_with(*memory);
  if (child == 0) ::_exit(all_zero(region.data(), page) && !all_zero(region.data() + page, page) ? 0 : 1);
  EXPECT_EQ(exit_status(child), 0);
}

TEST(Fork, TheChildCanRegisterAnew) {
  auto memory = make_memory();
  Region region(4 * mebibyte);
  fill(region.data(), region.size(), 6);
  ASSERT_TRUE(memory->share(region.address(), region.size(), true));
  const pid_t child = fork_with(*memory);
  if (child == 0) {
    if (::fcntl(memory->fd(), F_GETFD) != -1) ::_exit(1);
    auto own = make_memory();
    const auto shared = own->share(region.address(), region.size(), true);
    if (!shared || shared->size() != region.size()) ::_exit(2);
    PeerView peer(*own, region.address(), region.size());
    ::_exit(first_difference(peer.data(), region.size(), 6) == -1 ? 0 : 3);
  }
  EXPECT_EQ(exit_status(child), 0);
}

TEST(Fork, HeapOnTheFileIsCopiedToo) {
  auto memory = make_memory();
  std::vector<std::unique_ptr<char[]>> blocks;
  for (size_t i = 0; i < 300; ++i) {
    blocks.emplace_back(new char[64 + 16 * i]);
    std::memset(blocks.back().get(), static_cast<int>(i), 64);
    ASSERT_TRUE(memory->share(address_of(blocks.back().get()), 64, true));
  }
  const pid_t child = fork_with(*memory);
  if (child == 0) {
    for (size_t i = 0; i < 300; ++i) {
      if (blocks[i][63] != static_cast<char>(i)) ::_exit(1);
      blocks[i].reset(new char[5000]);
      std::memset(blocks[i].get(), 'c', 5000);
    }
    blocks.clear();
    ::_exit(0);
  }
  EXPECT_EQ(exit_status(child), 0);
  for (size_t i = 0; i < 300; ++i) ASSERT_EQ(blocks[i][63], static_cast<char>(i));
}

TEST(Fork, AnExecutedProgramChangesNothing) {
  auto memory = make_memory();
  Region region(8 * mebibyte);
  fill(region.data(), region.size(), 7);
  ASSERT_TRUE(memory->share(region.address(), region.size(), true));
  const pid_t child = fork_with(*memory);
  if (child == 0) {
    ::execl("/bin/true", "true", nullptr);
    ::_exit(9);
  }
  EXPECT_EQ(exit_status(child), 0);
  EXPECT_EQ(first_difference(region.data(), region.size(), 7), -1);
}

TEST(Fork, AChildThatDiesAtOnceHoldsNobody) {
  auto memory = make_memory();
  Region region(8 * mebibyte);
  fill(region.data(), region.size(), 8);
  ASSERT_TRUE(memory->share(region.address(), region.size(), true));
  memory->before_fork();
  const pid_t child = ::fork();
  if (child == 0) ::syscall(SYS_exit_group, 7);  // before it got to copying
  memory->after_fork_in_parent();
  EXPECT_EQ(exit_status(child), 7);
  EXPECT_EQ(memory->share(region.address(), region.size(), true)->size(), region.size());
}

TEST(Fork, AFailedForkIsOver) {
  auto memory = make_memory();
  Region region(4 * page);
  fill(region.data(), region.size(), 9);
  ASSERT_TRUE(memory->share(region.address(), region.size(), true));
  memory->before_fork();
  errno = EAGAIN;
  memory->after_fork_in_parent();
  EXPECT_EQ(errno, EAGAIN);
  const pid_t child = fork_with(*memory);
  if (child == 0) ::_exit(0);
  EXPECT_EQ(exit_status(child), 0);
}

// The session came to be, in another thread, after this one's fork had begun.
TEST(Fork, AnEndWithoutABeginningIsHarmless) {
  auto memory = make_memory();
  Region region(4 * page);
  fill(region.data(), region.size(), 14);
  memory->after_fork_in_parent();
  ASSERT_TRUE(memory->share(region.address(), region.size(), true));
  pid_t child = ::fork();
  if (child == 0) {
    memory->after_fork_in_child();
    std::memset(region.data(), 'c', region.size());
    ::_exit(0);
  }
  EXPECT_EQ(exit_status(child), 0);
  EXPECT_EQ(first_difference(region.data(), region.size(), 14), -1);
  child = fork_with(*memory);
  if (child == 0) ::_exit(first_difference(region.data(), region.size(), 14) == -1 ? 0 : 1);
  EXPECT_EQ(exit_status(child), 0);
}

TEST(Fork, WorksWithoutFreeDescriptors) {
  EXPECT_EQ(in_child([]() -> std::string {
              auto memory = make_memory();
              Region region(4 * mebibyte);
              fill(region.data(), region.size(), 10);
              if (memory->share(region.address(), region.size(), true)->size() != region.size()) return "not moved";
              struct rlimit few {
                0, 0
              };
              ::getrlimit(RLIMIT_NOFILE, &few);
              few.rlim_cur = 32;
              ::setrlimit(RLIMIT_NOFILE, &few);
              int last = -1;
              for (int fd; (fd = ::dup(0)) >= 0;) last = fd;
              ::close(last);  // one is left: not enough for a pipe, enough to read the map
              const pid_t child = fork_with(*memory);
              if (child == 0) {
                ::usleep(20'000);
                ::_exit(first_difference(region.data(), region.size(), 10) == -1 ? 0 : 1);
              }
              std::memset(region.data(), 'p', region.size());
              const int status = exit_status(child);
              return status == 0 ? "" : "child says " + std::to_string(status);
            }),
            "");
}

TEST(Fork, NoDescriptorsAreLeft) {
  auto memory = make_memory();
  Region region(4 * page);
  fill(region.data(), region.size(), 11);
  ASSERT_TRUE(memory->share(region.address(), region.size(), true));
  const int before = ::dup(0);
  ::close(before);
  for (int i = 0; i < 20; ++i) {
    const pid_t child = fork_with(*memory);
    if (child == 0) ::_exit(0);
    ASSERT_EQ(exit_status(child), 0);
  }
  const int after = ::dup(0);
  ::close(after);
  EXPECT_EQ(after, before);
}

volatile sig_atomic_t signals_seen = 0;

// A handler of the program that writes to shared pages must not run in the child before it has its copy.
TEST(Fork, SignalHandlersWaitForTheCopy) {
  auto memory = make_memory();
  Region region(32 * mebibyte);
  fill(region.data(), region.size(), 12);
  ASSERT_TRUE(memory->share(region.address(), region.size(), true));
  static char* target;
  target = region.data();
  struct sigaction action {};
  action.sa_handler = [](int) {
    std::memset(target, 's', page);
    signals_seen = signals_seen + 1;
  };
  struct sigaction old {};
  ::sigaction(SIGUSR1, &action, &old);
  memory->before_fork();
  const pid_t child = ::fork();
  if (child == 0) {
    ::kill(::getpid(), SIGUSR1);
    memory->after_fork_in_child();
    ::_exit(signals_seen == 1 && target[0] == 's' ? 0 : 1);
  }
  memory->after_fork_in_parent();
  EXPECT_EQ(exit_status(child), 0);
  EXPECT_EQ(first_difference(region.data(), region.size(), 12), -1);
  sigset_t blocked;
  ::sigprocmask(SIG_SETMASK, nullptr, &blocked);
  EXPECT_EQ(sigismember(&blocked, SIGUSR1), 0);
  ::sigaction(SIGUSR1, &old, nullptr);
}

// Threads register while another forks; the children find whole pages wherever they look.
TEST(Fork, WhileOtherThreadsRegister) {
  if (!can_hold_writers()) GTEST_SKIP() << "no userfaultfd here";
  auto memory = make_memory();
  Region region(64 * mebibyte);
  fill(region.data(), region.size(), 13);
  std::atomic<bool> stop{false};
  std::thread registrar([&] {
    for (u64 i = 0; !stop; i = (i + 1) % 64) {
      const u64 at = region.address() + i * mebibyte;
      ASSERT_TRUE(memory->share(at, mebibyte / 2, true));
      memory->unshare(at, mebibyte / 2);
      Region fresh(mebibyte);  // so that each round moves something
      fill(fresh.data(), fresh.size(), i);
      ASSERT_EQ(memory->share(fresh.address(), fresh.size(), true)->size(), fresh.size());
      memory->unshare(fresh.address(), fresh.size());
      ASSERT_EQ(first_difference(fresh.data(), fresh.size(), i), -1);
    }
  });
  for (int i = 0; i < 15; ++i) {
    const pid_t child = fork_with(*memory);
    if (child == 0) {
      const bool same = first_difference(region.data(), region.size(), 13) == -1;
      std::memset(region.data(), 0, region.size());
      ::_exit(same ? 0 : 1);
    }
    ASSERT_EQ(exit_status(child), 0);
  }
  stop = true;
  registrar.join();
  EXPECT_EQ(first_difference(region.data(), region.size(), 13), -1);
}

}  // namespace
}  // namespace softib::hca::testing
