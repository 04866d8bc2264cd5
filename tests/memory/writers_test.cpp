// Other threads at work in the range while it is moved.
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <atomic>
#include <cstddef>
#include <thread>
#include <vector>

#include "hca/memory/process_facts.h"
#include "hca/memory/write_hold.h"
#include "memory/support.h"

namespace softib::hca::testing {
namespace {

// Each thread adds to counters of its own all over the region, in an order of its own, and notes how often.
class Hammer {
 public:
  Hammer(Region& region, unsigned threads) : region_(region), notes_(threads) {
    for (unsigned t = 0; t < threads; ++t) {
      notes_[t].assign(pages(), 0);
      threads_.emplace_back([this, t] { run(t); });
    }
  }
  ~Hammer() { stop(); }

  // Until the threads have made some more updates.
  void wait_for_updates() const {
    for (const u64 before = updates_; updates_ < before + 3 * batch;) ::usleep(100);
  }

  void stop() {
    stop_ = true;
    for (auto& thread : threads_) {
      if (thread.joinable()) thread.join();
    }
  }

  // Updates that did not arrive; and reads that gave another value than the thread had just written.
  [[nodiscard]] u64 lost() const {
    u64 sum = wrong_reads_;
    for (unsigned t = 0; t < notes_.size(); ++t) {
      for (u64 i = 0; i < pages(); ++i) sum += *counter(t, i) != notes_[t][i];
    }
    return sum;
  }

 private:
  [[nodiscard]] u64 pages() const { return region_.size() / page; }
  [[nodiscard]] volatile u64* counter(unsigned thread, u64 index) const {
    return reinterpret_cast<volatile u64*>(region_.data() + index * page) + thread;
  }

  void run(unsigned thread) {
    u64 state = thread + 1;
    while (!stop_) {
      for (u64 i = 0; i < batch; ++i) update(thread, state);
      updates_ += batch;
    }
  }

  void update(unsigned thread, u64& state) {
    state = state * 6364136223846793005 + 1442695040888963407;
    const u64 index = (state >> 33) % pages();
    volatile u64* at = counter(thread, index);
    if (*at != notes_[thread][index]) ++wrong_reads_;
    *at = ++notes_[thread][index];
  }

  static constexpr u64 batch = 100;

  Region& region_;
  std::vector<std::vector<u64>> notes_;
  std::vector<std::thread> threads_;
  std::atomic<bool> stop_{false};
  std::atomic<u64> updates_{0};
  std::atomic<u64> wrong_reads_{0};
};

void hammer_during_share(u64 size, bool touched, int rounds, int advice = MADV_NOHUGEPAGE) {
  for (int round = 0; round < rounds; ++round) {
    auto memory = make_memory();
    Region region(size);
    ::madvise(region.data(), region.size(), advice);
    if (touched) {
      for (u64 i = 0; i < size; i += page) region.data()[i + 1000] = 1;
    }
    Hammer hammer(region, 3);
    hammer.wait_for_updates();
    const auto shared = memory->share(region.address(), region.size(), true);
    hammer.wait_for_updates();
    hammer.stop();
    ASSERT_TRUE(shared);
    ASSERT_EQ(shared->size(), region.size());
    ASSERT_EQ(hammer.lost(), 0U) << "round " << round;
  }
}

TEST(Writers, LoseNothingOnTouchedPages) {
  if (!can_hold_writers()) GTEST_SKIP() << "no userfaultfd here";
  hammer_during_share(4 * mebibyte, true, 40);
}

TEST(Writers, LoseNothingOnPagesNeverTouched) {
  if (!can_hold_writers()) GTEST_SKIP() << "no userfaultfd here";
  hammer_during_share(16 * mebibyte, false, 40);
}

TEST(Writers, LoseNothingOnASinglePage) {
  if (!can_hold_writers()) GTEST_SKIP() << "no userfaultfd here";
  hammer_during_share(page, true, 150);
}

TEST(Writers, LoseNothingInLargeMoves) {
  if (!can_hold_writers()) GTEST_SKIP() << "no userfaultfd here";
  hammer_during_share(128 * mebibyte, true, 4);
}

TEST(Writers, LoseNothingOnHugePages) {
  if (!can_hold_writers()) GTEST_SKIP() << "no userfaultfd here";
  hammer_during_share(24 * mebibyte, false, 10, MADV_HUGEPAGE);
}

TEST(Writers, UntouchedPagesStillTakeNoMemory) {
  if (!can_hold_writers()) GTEST_SKIP() << "no userfaultfd here";
  auto memory = make_memory();
  Region small(page);
  Region region(64 * mebibyte);
  ::madvise(region.data(), region.size(), MADV_NOHUGEPAGE);
  Hammer hammer(small, 1);
  hammer.wait_for_updates();
  ASSERT_EQ(memory->share(region.address(), region.size(), true)->size(), region.size());
  EXPECT_LE(memory->usage().file_bytes, 4 * page);
}

// The kernel writes into the range for a thread: read() from a pipe.
TEST(Writers, SystemCallsOfOtherThreadsSucceed) {
  WriteHold hold;
  if (hold.open() != WriteHold::Reach::kernel) GTEST_SKIP() << "no right to hold system calls";
  auto memory = make_memory();
  constexpr u64 rounds = 300;
  Region region(rounds * page);
  std::atomic<u64> failed{0};
  std::atomic<u64> at{0};
  int line[2];
  ASSERT_EQ(::pipe(line), 0);
  std::thread reader([&] {
    for (u64 i = 0; at < rounds; ++i) {
      const u64 slot = at;  // goes with the page that is being moved
      if (slot >= rounds) break;
      u64 value = 0;
      if (::write(line[1], &i, sizeof i) != sizeof i) ++failed;
      char* place = region.data() + slot * page + (i % 500) * 8;
      if (::read(line[0], place, sizeof i) != sizeof i) ++failed;
      std::memcpy(&value, place, sizeof value);
      if (value != i) ++failed;
    }
  });
  for (u64 i = 0; i + 1 < rounds; ++i, ++at) {
    ASSERT_EQ(memory->share(region.address() + i * page, page, true)->size(), page);
    ::usleep(30);
  }
  at = rounds;
  reader.join();
  EXPECT_EQ(failed, 0U);
}

TEST(Writers, AUserfaultfdOfTheProgramKeepsItsPages) {
  const int own = static_cast<int>(::syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK));
  if (own < 0) GTEST_SKIP() << "no userfaultfd here";
  uffdio_api api{UFFD_API, 0, 0};
  ASSERT_EQ(::ioctl(own, UFFDIO_API, &api), 0);
  auto memory = make_memory();
  Region region(4 * page);
  fill(region.data(), region.size(), 1);
  uffdio_register request{{region.address(), region.size()}, UFFDIO_REGISTER_MODE_MISSING, 0};
  ASSERT_EQ(::ioctl(own, UFFDIO_REGISTER, &request), 0);
  const auto shared = memory->share(region.address(), region.size(), true);
  ASSERT_TRUE(shared);
  EXPECT_TRUE(shared->empty());
  EXPECT_EQ(::ioctl(own, UFFDIO_UNREGISTER, &request.range), 0);
  ::close(own);
}

// As the default profile of container engines does.
bool forbid_userfaultfd() {
  sock_filter rules[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_userfaultfd, 1, 0),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
  };
  const sock_fprog program{sizeof rules / sizeof rules[0], rules};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

bool become_ordinary() {
  return ::getuid() != 0 || (::setresgid(65534, 65534, 65534) == 0 && ::setresuid(65534, 65534, 65534) == 0 &&
                             ::prctl(PR_SET_DUMPABLE, 1) == 0);
}

// A thread that stands still when asked to, as the engine's helper does.
class Parkable final : public OwnThread {
 public:
  bool park() override { return working_.try_lock(); }
  void resume() override { working_.unlock(); }
  void work() {
    std::lock_guard at_work(working_);
    ++turns_;
  }
  [[nodiscard]] u64 turns() const { return turns_; }

 private:
  std::mutex working_;
  std::atomic<u64> turns_{0};
};

std::string share_beside_own_thread() {
  if (!become_ordinary() || !forbid_userfaultfd()) return "can't give up rights";
  if (can_hold_writers() || count_threads() != 1) return "";
  auto memory = make_memory();
  Parkable own;
  memory->set_own_thread(&own);
  std::atomic<bool> stop{false};
  std::thread thread([&] {
    while (!stop) {
      own.work();
      ::usleep(100);
    }
  });
  Region region(8 * page);
  fill(region.data(), region.size(), 2);
  auto shared = memory->share(region.address(), region.size(), true);
  for (int tries = 0; shared && shared->size() != region.size() && tries < 100; ++tries) {  // it was at work
    memory->unshare(region.address(), region.size());
    shared = memory->share(region.address(), region.size(), true);
  }
  const u64 seen = own.turns();
  while (own.turns() == seen) ::usleep(100);  // it goes on
  stop = true;
  thread.join();
  if (!shared || shared->size() != region.size()) return "not moved beside a thread that stands still";
  return first_difference(region.data(), region.size(), 2) == -1 ? "" : "contents lost";
}

TEST(Writers, WithoutUserfaultfdOurOwnThreadIsParked) { EXPECT_EQ(in_child(share_beside_own_thread), ""); }

std::string share_without_userfaultfd(bool with_thread) {
  if (!become_ordinary() || !forbid_userfaultfd()) return "can't give up rights";
  if (can_hold_writers()) return "";                    // the system lets everybody have it
  if (!with_thread && count_threads() != 1) return "";  // the thread sanitizer has a thread of its own
  auto memory = make_memory();
  Region region(8 * page);
  fill(region.data(), region.size(), 2);
  std::atomic<bool> stop{false};
  std::thread other;
  if (with_thread)
    other = std::thread([&] {
      while (!stop) ::usleep(100);
    });
  const auto shared = memory->share(region.address(), region.size(), true);
  stop = true;
  if (with_thread) other.join();
  if (!shared) return "share failed";
  if (first_difference(region.data(), region.size(), 2) != -1) return "contents lost";
  const bool moved = shared->size() == region.size();
  return moved == with_thread ? (moved ? "moved beside another thread" : "not moved although alone") : "";
}

TEST(Writers, WithoutUserfaultfdALoneThreadStillMoves) {
  EXPECT_EQ(in_child([] { return share_without_userfaultfd(false); }), "");
}

TEST(Writers, WithoutUserfaultfdNothingIsMovedBesideOthers) {
  EXPECT_EQ(in_child([] { return share_without_userfaultfd(true); }), "");
}

// An ordinary user can hold threads, but not their system calls: then the first and last page, which others may use as
// well, stay where they are.
std::string share_as_ordinary_user() {
  if (!become_ordinary()) return "can't give up rights";
  WriteHold hold;
  if (hold.open() != WriteHold::Reach::threads) return "";
  auto memory = make_memory();
  Region region(16 * mebibyte);
  Hammer hammer(region, 2);
  hammer.wait_for_updates();
  const auto shared = memory->share(region.address() + 100, region.size() - 200, true);
  hammer.wait_for_updates();
  hammer.stop();
  if (!shared) return "share failed";
  if (shared->begin != region.address() + page || shared->end != region.address() + region.size() - page)
    return "not the inner pages";
  return hammer.lost() == 0 ? "" : "lost updates";
}

TEST(Writers, AnOrdinaryUserMovesTheInnerPages) { EXPECT_EQ(in_child(share_as_ordinary_user), ""); }

}  // namespace
}  // namespace softib::hca::testing
