#include "local_bootstrap.h"

#include <sched.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>

namespace softib::coll::test {

namespace {

constexpr u64 most_bytes = u64{256} << 10;  // of one blob
constexpr u64 blames_kept = 64;
constexpr u64 words_kept = 64;

}  // namespace

// Pages that nobody touches take no memory.
struct LocalMeeting::Seat {
  struct Blame {
    u32 waits_for;
    u64 collective;
  };
  std::atomic<u64> arrived;  // gatherings that this rank has given its part for
  std::atomic<bool> ended;
  std::atomic<bool> left;
  std::atomic<bool> aborted;
  std::atomic<u64> blamed;
  std::array<char, 256> why;
  std::array<Blame, blames_kept> blames;
  std::atomic<u64> said;
  std::array<std::array<char, 512>, words_kept> words;
  // Two by turns: who gives to gathering n + 2 has seen all arrive at n + 1, so all have read what was given to n.
  std::array<u64, 2> sizes;
  std::array<std::array<std::byte, most_bytes>, 2> blobs;
};

LocalMeeting::LocalMeeting(u32 ranks, std::vector<u64> host_keys) : ranks_(ranks), host_keys_(std::move(host_keys)) {
  host_keys_.resize(ranks_);
  for (u32 rank = 0; rank < ranks_; ++rank) wakers_.push_back(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  void* memory =
      ::mmap(nullptr, ranks_ * sizeof(Seat), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) std::abort();
  seats_ = static_cast<Seat*>(memory);
}

LocalMeeting::~LocalMeeting() {
  ::munmap(seats_, ranks_ * sizeof(Seat));
  for (int waker : wakers_) ::close(waker);
}

LocalMeeting::Seat& LocalMeeting::seat(u32 rank) const { return seats_[rank]; }

void LocalMeeting::wake_others(u32 rank) const {
  const u64 one = 1;
  for (u32 other = 0; other < ranks_; ++other)
    if (other != rank && ::write(wakers_[other], &one, sizeof one) < 0) continue;
}

void LocalMeeting::mark_ended(u32 rank) {
  seat(rank).ended = true;
  wake_others(rank);
}

class LocalBootstrap final : public Bootstrap {
 public:
  LocalBootstrap(LocalMeeting& meeting, u32 rank) : meeting_(meeting), rank_(rank), told_(meeting.ranks()) {}
  ~LocalBootstrap() override {
    if (!mine().left) meeting_.mark_ended(rank_);
  }

  void introduce() {
    const i32 process = ::getpid();
    const auto all = all_gather(std::as_bytes(std::span(&process, 1)));
    if (!all) std::abort();
    for (u32 rank = 0; rank < meeting_.ranks(); ++rank) {
      Member member{.rank = rank, .host = "host", .host_key = meeting_.host_keys_[rank], .address = "127.0.0.1"};
      member.host += std::to_string(member.host_key);
      std::memcpy(&member.process, (*all)[rank].data(), sizeof member.process);
      members_.push_back(std::move(member));
    }
  }

  [[nodiscard]] u32 rank() const override { return rank_; }
  [[nodiscard]] std::span<const Member> members() const override { return members_; }

  [[nodiscard]] Outcome<std::vector<Bytes>> all_gather(std::span<const std::byte> given) override {
    if (given.size() > most_bytes) return refuse(Code::invalid_argument, "too much for a meeting of tests");
    const u64 turn = ++gatherings_ % 2;
    mine().sizes[turn] = given.size();
    if (!given.empty()) std::memcpy(mine().blobs[turn].data(), given.data(), given.size());
    mine().arrived.store(gatherings_, std::memory_order_release);
    std::vector<Bytes> all;
    for (u32 rank = 0; rank < meeting_.ranks(); ++rank) {
      if (auto came = wait_for(rank); !came) return tl::unexpected(came.error());
      const std::byte* blob = meeting_.seat(rank).blobs[turn].data();
      all.emplace_back(blob, blob + meeting_.seat(rank).sizes[turn]);
    }
    return all;
  }

  [[nodiscard]] std::optional<News> news() override {
    u64 count = 0;
    if (::read(descriptor(), &count, sizeof count) < 0) count = 0;
    for (u32 rank = 0; rank < meeting_.ranks(); ++rank)
      if (auto news = rank == rank_ ? std::nullopt : news_of(rank)) {
        wake_again();  // there may be more
        return news;
      }
    return std::nullopt;
  }

  void abort(const std::string& why) override {
    why.copy(mine().why.data(), mine().why.size() - 1);
    mine().aborted.store(true, std::memory_order_release);
    meeting_.wake_others(rank_);
  }

  void blame(u32 rank, u64 collective) override {
    mine().blames[mine().blamed % blames_kept] = {rank, collective};
    mine().blamed.fetch_add(1, std::memory_order_release);
    meeting_.wake_others(rank_);
  }

  void leave() override { mine().left = true; }

  void say(const std::string& words) override {
    auto& room = mine().words[mine().said % words_kept];
    room[words.copy(room.data(), room.size() - 1)] = '\0';
    mine().said.fetch_add(1, std::memory_order_release);
    meeting_.wake_others(rank_);
  }

  [[nodiscard]] int descriptor() const override { return meeting_.wakers_[rank_]; }

 private:
  struct Told {
    bool ended = false;
    bool aborted = false;
    u64 blames = 0;
    u64 words = 0;
  };

  LocalMeeting::Seat& mine() { return meeting_.seat(rank_); }

  Outcome<void> wait_for(u32 rank) {
    LocalMeeting::Seat& seat = meeting_.seat(rank);
    for (u64 looks = 0; seat.arrived.load(std::memory_order_acquire) < gatherings_; ++looks) {
      for (u32 other = 0; other < meeting_.ranks(); ++other) {
        const bool gone = meeting_.seat(other).ended || meeting_.seat(other).left;
        if (meeting_.seat(other).aborted || (gone && meeting_.seat(other).arrived < gatherings_))
          return refuse(Code::remote_error, "rank " + std::to_string(other) + " is gone");
      }
      if (looks < 100)
        ::sched_yield();
      else
        ::usleep(50);
    }
    return {};
  }

  std::optional<News> news_of(u32 rank) {
    LocalMeeting::Seat& seat = meeting_.seat(rank);
    Told& told = told_[rank];
    if (told.blames < seat.blamed.load(std::memory_order_acquire)) {
      const auto blame = seat.blames[told.blames++ % blames_kept];
      return News{News::Kind::blames, rank, blame.waits_for, blame.collective, {}};
    }
    if (told.words < seat.said.load(std::memory_order_acquire))
      return News{News::Kind::says, rank, 0, 0, seat.words[told.words++ % words_kept].data()};
    if (!told.aborted && seat.aborted.load(std::memory_order_acquire)) {
      told.aborted = true;
      return News{News::Kind::aborted, rank, 0, 0, seat.why.data()};
    }
    if (!told.ended && seat.ended && !seat.left) {
      told.ended = true;
      return News{News::Kind::ended, rank, 0, 0, {}};
    }
    return std::nullopt;
  }

  void wake_again() {
    const u64 one = 1;
    if (::write(descriptor(), &one, sizeof one) < 0) std::abort();
  }

  LocalMeeting& meeting_;
  u32 rank_;
  u64 gatherings_ = 0;
  std::vector<Member> members_;
  std::vector<Told> told_;
};

std::unique_ptr<Bootstrap> LocalMeeting::join(u32 rank) {
  auto bootstrap = std::make_unique<LocalBootstrap>(*this, rank);
  bootstrap->introduce();
  return bootstrap;
}

}  // namespace softib::coll::test
