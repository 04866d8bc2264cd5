// The parts alone: the book against a plain model, the two ways to ask the kernel, limits.
#include <sys/resource.h>

#include <array>
#include <csignal>
#include <random>
#include <vector>

#include "hca/memory/kernel_map.h"
#include "hca/memory/lock_limit.h"
#include "hca/memory/memory_file.h"
#include "hca/memory/page_book.h"
#include "memory/support.h"

namespace softib::hca::testing {
namespace {

// The book's answers, worked out page by page.
class Model {
 public:
  explicit Model(size_t pages) : pages_(pages) {}
  PageState& operator[](size_t i) { return pages_[i]; }

  void compare(const PageBook& book, u64 base) const {
    u64 home = 0;
    u64 pinned = 0;
    u64 runs = 0;
    for (size_t i = 0; i < pages_.size(); ++i) {
      ASSERT_EQ(book.at(base + i * page).state, pages_[i]) << "page " << i;
      const bool at_home = pages_[i].place == Place::home;
      home += at_home;
      pinned += at_home && pages_[i].pins != 0;
      runs += at_home && (i == 0 || pages_[i - 1].place != Place::home);
    }
    ASSERT_EQ(book.home_bytes(), home * page);
    ASSERT_EQ(book.pinned_home_bytes(), pinned * page);
    ASSERT_EQ(book.runs(), runs);
  }

 private:
  std::vector<PageState> pages_;
};

TEST(PageBook, AgreesWithAModel) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  constexpr size_t count = 60;
  constexpr u64 base = 0x7000'0000;
  PageBook book;
  Model model(count);
  for (int round = 0; round < 3000; ++round) {
    const size_t begin = random() % count;
    const size_t end = begin + 1 + random() % (count - begin);
    const unsigned what = random() % 4;
    const auto change = [&](PageState& state) {
      if (what == 0) ++state.pins;
      if (what == 1 && state.pins > 0) --state.pins;
      if (what == 2) state.place = static_cast<Place>(round % 3);
      if (what == 3) state.away = !state.away;
    };
    book.update({base + begin * page, base + end * page}, change);
    for (size_t i = begin; i < end; ++i) change(model[i]);
    ASSERT_NO_FATAL_FAILURE(model.compare(book, base));
  }
  book.update({0, address_space_end}, [](PageState& state) { state = {}; });
  EXPECT_EQ(book.at(0).range.end, address_space_end);  // one stretch again: nothing is left behind
}

TEST(PageBook, ForEachGivesWholeStretches) {
  PageBook book;
  book.update({10 * page, 20 * page}, [](PageState& state) { state.place = Place::home; });
  std::vector<u64> starts;
  book.for_each({5 * page, 15 * page}, [&](const Segment& segment) { starts.push_back(segment.range.begin / page); });
  EXPECT_EQ(starts, (std::vector<u64>{5, 10}));
  EXPECT_TRUE(book.all({10 * page, 20 * page}, Place::home));
  EXPECT_FALSE(book.all({9 * page, 20 * page}, Place::home));
  EXPECT_TRUE(book.any({19 * page, 30 * page}, Place::home));
  EXPECT_FALSE(book.any({20 * page, 30 * page}, Place::home));
}

struct Seen {
  u64 begin, end, offset, inode;
  int rights;
  bool operator==(const Seen&) const = default;
};

// Into memory that is there already: looking must change no mapping.
struct View {
  std::array<Seen, 4000> list;
  size_t count = 0;
};

void look(KernelMap& map, AddressRange range, KernelMap::Only only, View& view) {
  view.count = 0;
  EXPECT_TRUE(map.for_each(range, only, [&](const Mapping& m) {
    view.list[view.count++] = {m.range.begin, m.range.end, m.offset, m.inode, m.protection() | m.shared << 3};
    return view.count < view.list.size();
  }));
}

View first;
View second;

TEST(KernelMap, BothWaysOfAskingAgree) {
  Region shared(4 * page, PROT_READ, MAP_SHARED | MAP_ANONYMOUS);
  KernelMap fast;
  KernelMap text;
  text.use_text();
  look(fast, {0, page}, KernelMap::Only::all, first);  // opens its descriptor
  for (const auto only : {KernelMap::Only::all, KernelMap::Only::shared}) {
    look(fast, {0, address_space_end}, only, first);
    look(text, {0, address_space_end}, only, second);
    EXPECT_GT(first.count, only == KernelMap::Only::all ? 10U : 0U);
    ASSERT_EQ(first.count, second.count);
    for (size_t i = 0; i < first.count; ++i)
      EXPECT_TRUE(first.list[i] == second.list[i]) << std::hex << first.list[i].begin;
  }
  look(text, {shared.address() + page, shared.address() + 2 * page}, KernelMap::Only::all, second);
  ASSERT_EQ(second.count, 1U);
  EXPECT_EQ(second.list[0].begin, shared.address());
}

TEST(KernelMap, SurvivesTheLossOfItsDescriptor) {
  EXPECT_EQ(in_child([]() -> std::string {
              KernelMap map;
              look(map, {0, address_space_end}, KernelMap::Only::all, first);
              if (first.count == 0) return "nothing seen";
              for (int fd = 3; fd < 100; ++fd) {
                if (::dup2(0, fd) != fd) return "dup2";
              }
              look(map, {0, address_space_end}, KernelMap::Only::all, second);
              // The answer's way home was closed above as well: say it by the exit status.
              ::_exit(second.count >= first.count ? 0 : 3);
            }),
            "");
}

TEST(MemoryFile, LiftsASoftLimitAndRespectsAHardOne) {
  EXPECT_EQ(in_child([]() -> std::string {
              struct rlimit limit {};
              ::getrlimit(RLIMIT_FSIZE, &limit);
              limit.rlim_cur = 1 << 20;
              ::setrlimit(RLIMIT_FSIZE, &limit);
              auto memory = make_memory();
              Region region(4 * mebibyte);
              fill(region.data(), region.size(), 1);
              region.data()[0] = 'x';
              const auto shared = memory->share(region.address() + page, region.size() - page, true);
              if (!shared || shared->size() != region.size() - page) return "not moved under the soft limit";
              if (region.data()[0] != 'x') return "contents lost";
              struct rlimit after {};
              ::getrlimit(RLIMIT_FSIZE, &after);
              if (after.rlim_cur != limit.rlim_cur) return "limit changed";
              limit.rlim_max = limit.rlim_cur;
              ::setrlimit(RLIMIT_FSIZE, &limit);
              const auto refused = ProcessMemory::create();
              return !refused && refused.error() == Errno{ENOMEM} ? "" : "no ENOMEM";
            }),
            "");
}

std::string charge_as_ordinary_user(rlim_t limit, u64 pages, int expected) {
  return in_child([=]() -> std::string {
    const struct rlimit rule { limit, limit };
    if (::setrlimit(RLIMIT_MEMLOCK, &rule) != 0) return "";  // no right to raise it
    if (::getuid() == 0 && ::setresuid(65534, 65534, 65534) != 0) return "can't give up rights";
    LockLimit lock;
    const auto done = lock.charge(0x10000 + 100, pages * page - 200);
    const int got = done ? 0 : to_int(done.error());
    return got == expected ? "" : "got " + std::to_string(got);
  });
}

TEST(LockLimit, CountsPagesAsTheKernelDoes) {
  EXPECT_EQ(charge_as_ordinary_user(16 * page, 16, 0), "");
  EXPECT_EQ(charge_as_ordinary_user(16 * page, 17, ENOMEM), "");
  EXPECT_EQ(charge_as_ordinary_user(16 * page + 4095, 17, ENOMEM), "");
  EXPECT_EQ(charge_as_ordinary_user(0, 1, EPERM), "");
  EXPECT_EQ(charge_as_ordinary_user(RLIM_INFINITY, 100'000, 0), "");
}

TEST(LockLimit, RegistrationsAddUpAndAreGivenBack) {
  EXPECT_EQ(in_child([]() -> std::string {
              const struct rlimit rule { 16 * page, 16 * page };
              ::setrlimit(RLIMIT_MEMLOCK, &rule);
              if (::getuid() == 0 && ::setresuid(65534, 65534, 65534) != 0) return "can't give up rights";
              LockLimit lock;
              if (!lock.charge(0x10000, 8 * page) || !lock.charge(0x10000, 8 * page)) return "refused too early";
              if (lock.charge(0x10000, 1)) return "the same page again is not free";
              lock.uncharge(0x10000, 8 * page);
              return lock.charge(0x90000, 8 * page) ? "" : "not given back";
            }),
            "");
}

TEST(LockLimit, WhatTheMachineGivesEverybodyIsNoLimit) {
  EXPECT_EQ(in_child([]() -> std::string {
              const struct rlimit rule { 16 * page, 16 * page };
              ::setrlimit(RLIMIT_MEMLOCK, &rule);
              if (::getuid() == 0 && ::setresuid(65534, 65534, 65534) != 0) return "can't give up rights";
              LockLimit lock;
              lock.set_usual(17 * page);
              if (lock.charge(0x10000, 17 * page)) return "a lower limit does not count";
              lock.set_usual(16 * page);
              if (!lock.charge(0x10000, 1000 * page)) return "refused";
              lock.uncharge(0x10000, 1000 * page);
              return "";
            }),
            "");
}

TEST(LockLimit, CapIpcLockIsExempt) {
  if (::getuid() != 0) GTEST_SKIP() << "not root";
  EXPECT_EQ(in_child([]() -> std::string {
              const struct rlimit rule { 0, 0 };
              ::setrlimit(RLIMIT_MEMLOCK, &rule);
              LockLimit lock;
              return lock.charge(0x10000, 1000 * page) ? "" : "refused";
            }),
            "");
}

}  // namespace
}  // namespace softib::hca::testing
