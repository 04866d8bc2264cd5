// Memory that ranks of a host share, and what is found in it when a peer has gone mad.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <list>
#include <map>
#include <random>

#include "coll/transport/shm/incoming.h"
#include "ranks.h"

namespace softib::coll::test {

namespace {

using shm::Arena;
using shm::Channel;
using shm::Head;
using shm::LineKind;
using shm::PeerArena;

constexpr u64 mebibyte = u64{1} << 20;

u64 pages_in_use(const Arena& arena) {
  struct stat status {};
  EXPECT_EQ(::fstat(arena.descriptor(), &status), 0);
  return static_cast<u64>(status.st_blocks) * 512;
}

std::span<std::byte> bytes_of(void* memory, u64 bytes) { return {static_cast<std::byte*>(memory), bytes}; }

class Channels {
 public:
  Channels() {
    void* memory = ::mmap(nullptr, 2 * sizeof(Channel), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) std::abort();
    channels_ = static_cast<Channel*>(memory);
  }
  Channels(const Channels&) = delete;
  Channels& operator=(const Channels&) = delete;
  ~Channels() { ::munmap(channels_, 2 * sizeof(Channel)); }

  Channel& in() { return channels_[0]; }
  Channel& out() { return channels_[1]; }

 private:
  Channel* channels_;
};

// A rank whose peer writes whatever it likes, much of it nearly right.
class Madness {
 public:
  explicit Madness(u64 seed) : random_(seed) {
    key_ = {random_(), random_()};
    if (seed % 2) peer_.process = shm::ProcessMemory::of(::getpid(), key_, reinterpret_cast<u64>(&key_));
    incoming_.emplace(channels_.in(), outgoing_, *arena_, peer_, scratch_.data(), nullptr, health_);
  }

  void run() {
    for (int i = 0; i < 400 && health_.good; ++i) {
      if (random_() % 3 == 0) post();
      write_line();
      if (random_() % 8 == 0) write_counter();
      incoming_->progress();
      if (outgoing_.held()) outgoing_.progress();
      give_back();
    }
    outgoing_.fail_all();
    incoming_->fail_all();
    for (const Receive& receive : receives_) EXPECT_NE(receive.state, State::waiting);
    for (const Send& send : sends_) EXPECT_NE(send.state, State::waiting);
  }

 private:
  void post() {
    const u64 sizes[]{0, 8, 40, 300, 8192, 200'000};
    const u64 bytes = sizes[random_() % std::size(sizes)];
    if (random_() % 2 == 0) {
      Send& send = sends_.emplace_back();
      send.stream = random_() % 4;
      send.bytes = bytes;
      send.lend = random_() % 2 == 0;
      send.push = random_() % 2 == 0;
      send.memory = memory_.data();
      outgoing_.send(send);
    } else {
      Receive& receive = receives_.emplace_back();
      receive.stream = random_() % 4;
      receive.bytes = bytes;
      receive.lend = random_() % 2 == 0;
      receive.memory = random_() % 2 == 0 ? memory_.data() : shared_;
      incoming_->receive(receive);
    }
  }

  void write_line() {
    shm::Line& line = channels_.in().lines[written_ % shm::line_count];
    const u64 sizes[]{0, 8, 40, 300, 8192, 20'000, 65'535};
    const auto kind = static_cast<LineKind>(random_() % 30 == 0 ? random_() : 1 + random_() % 6);
    line.name = random_() % 4 == 0 ? u64{1 + random_() % 3} << 32 | random_() % 4 : random_() % 4;
    const shm::Announcement announcement{sizes[random_() % 5] * (1 + random_() % 25), random_(), random_(),
                                         random_() % 2 ? random_() % 100'000 : shm::Announcement::nowhere,
                                         random_() % 2};
    std::memcpy(line.payload.data(), &announcement, sizeof announcement);
    const u64 place = random_() % 8 ? random_() % mebibyte : random_();
    if (kind == LineKind::place) std::memcpy(line.payload.data(), &place, sizeof place);
    const Head head{static_cast<u32>(written_ / shm::line_count + 1), kind,
                    static_cast<u16>(sizes[random_() % std::size(sizes)])};
    line.head.store(random_() % 50 ? head.word() : random_());
    ++written_;
    if (random_() % 4 == 0) channels_.in().marks[random_() % shm::chunk_count].number = random_() % 8;
    if (random_() % 64 == 0) channels_.in().writing.now = 1;
  }

  void write_counter() {
    const u64 values[]{0, 1, 2, 64, 128, 1000, random_(), ~u64{0}};
    std::atomic<u64>* counters[]{&channels_.out().taken.lines, &channels_.out().taken.data,
                                 &channels_.out().taken.matched, &channels_.out().taken.chunks};
    counters[random_() % 4]->store(values[random_() % std::size(values)]);
  }

  void give_back() {
    for (Receive& receive : receives_)
      if (receive.state == State::done && receive.lend) incoming_->release(receive);
  }

  std::mt19937_64 random_;
  shm::Key key_{};
  Channels channels_;
  std::shared_ptr<Arena> arena_ = Arena::create(64 * mebibyte).value();
  shm::Health health_;
  std::shared_ptr<Arena> peer_arena_ = Arena::create(64 * mebibyte).value();
  shm::PeerMemory peer_{PeerArena::of(Fd(::dup(peer_arena_->descriptor()))).value(), {}, 0};
  shm::StoreChoices stores_;
  shm::Outgoing outgoing_{channels_.out(), channels_.in().sender, *arena_, peer_, stores_, health_};
  std::vector<std::byte> memory_ = std::vector<std::byte>(200'000);
  void* shared_ = arena_->allocate(200'000).value();
  std::vector<std::byte> scratch_ = std::vector<std::byte>(shm::Incoming::scratch_bytes);
  std::optional<shm::Incoming> incoming_;
  std::list<Send> sends_;
  std::list<Receive> receives_;
  u64 written_ = 0;
};

}  // namespace

TEST(ShmArena, blocks_are_zeroed_aligned_and_apart) {
  const auto arena = Arena::create(512 * mebibyte).value();
  std::mt19937_64 random(std::random_device{}());
  struct Block {
    u64 bytes;
    u64 number;
  };
  std::map<void*, Block> blocks;
  for (u64 i = 0; i < 600; ++i) {
    if (blocks.size() > 20) {
      const auto block = std::next(blocks.begin(), static_cast<std::ptrdiff_t>(random() % blocks.size()));
      EXPECT_EQ(first_difference(bytes_of(block->first, block->second.bytes), block->second.number),
                block->second.bytes);
      EXPECT_TRUE(arena->free(block->first));
      blocks.erase(block);
    }
    const u64 bytes = random() % (i % 10 == 0 ? 5 * mebibyte : 40'000);
    void* memory = arena->allocate(bytes).value();
    EXPECT_EQ(reinterpret_cast<u64>(memory) % (bytes >= 2 * mebibyte ? 2 * mebibyte : 4096), 0U);
    const auto span = bytes_of(memory, bytes);
    EXPECT_TRUE(std::all_of(span.begin(), span.end(), [](std::byte byte) { return byte == std::byte{0}; }));
    fill_pattern(span, i);
    blocks[memory] = {bytes, i};
  }
  for (const auto& [memory, block] : blocks) EXPECT_TRUE(arena->free(memory));
  EXPECT_EQ(arena->allocated(), 0U);
  EXPECT_EQ(pages_in_use(*arena), 0U);
  EXPECT_TRUE(arena->allocate(512 * mebibyte - 4096).has_value()) << "free blocks are joined";
}

TEST(ShmArena, refuses_what_it_can_not_give) {
  const auto arena = Arena::create(64 * mebibyte).value();
  EXPECT_FALSE(arena->allocate(65 * mebibyte).has_value());
  EXPECT_FALSE(arena->allocate(~u64{0}).has_value());
  void* most = arena->allocate(60 * mebibyte).value();
  EXPECT_FALSE(arena->allocate(10 * mebibyte).has_value());
  EXPECT_FALSE(arena->free(static_cast<std::byte*>(most) + 4096));
  int other = 0;
  EXPECT_FALSE(arena->free(&other));
  EXPECT_TRUE(arena->free(most));
  EXPECT_FALSE(arena->free(most));
  EXPECT_TRUE(arena->allocate(60 * mebibyte).has_value());
}

TEST(ShmArena, knows_what_lies_in_one_block) {
  const auto arena = Arena::create(64 * mebibyte).value();
  auto* first = static_cast<std::byte*>(arena->allocate(8192).value());
  auto* second = static_cast<std::byte*>(arena->allocate(8192).value());
  ASSERT_EQ(second, first + 8192);
  EXPECT_EQ(arena->place_of(first + 100, 8092), 100U);
  EXPECT_EQ(arena->place_of(second, 8192), 8192U);
  EXPECT_FALSE(arena->place_of(first + 100, 8093));
  EXPECT_FALSE(arena->place_of(second + 8192, 1));
  EXPECT_FALSE(arena->place_of(first, ~u64{0}));
  const std::byte elsewhere{};
  EXPECT_FALSE(arena->place_of(&elsewhere, 1));
  arena->free(first);
  EXPECT_FALSE(arena->place_of(first, 1));
}

TEST(ShmArena, peers_see_blocks_in_any_order) {
  const auto arena = Arena::create(256 * mebibyte).value();
  std::vector<std::byte*> blocks;
  for (u64 i = 0; i < 20; ++i) {
    blocks.push_back(static_cast<std::byte*>(arena->allocate(5 * mebibyte).value()));
    fill_pattern(bytes_of(blocks.back(), 5 * mebibyte), i);
  }
  auto peer = PeerArena::of(Fd(::dup(arena->descriptor()))).value();
  std::vector<const std::byte*> seen(blocks.size());
  for (const u64 i : {3, 0, 19, 7, 1, 18, 2})
    seen[i] = peer.at(*arena->place_of(blocks[i], 5 * mebibyte), 5 * mebibyte);
  for (u64 i = 0; i < blocks.size(); ++i) {
    if (!seen[i]) continue;
    EXPECT_EQ(first_difference({seen[i], 5 * mebibyte}, i), 5 * mebibyte);
  }
  EXPECT_EQ(peer.at(256 * mebibyte - 1, 2), nullptr);
  EXPECT_EQ(peer.at(~u64{0}, 1), nullptr);
  EXPECT_EQ(peer.at(1, ~u64{0}), nullptr);
  // The owner frees while the peer still looks: no signal.
  for (std::byte* block : blocks) arena->free(block);
  EXPECT_EQ(seen[3][12345], std::byte{0});
}

TEST(ShmArena, looking_takes_no_memory_that_the_owner_has_not) {
  const auto arena = Arena::create(256 * mebibyte).value();
  std::vector<void*> blocks;
  for (u64 i = 0; i < 40; ++i) blocks.push_back(arena->allocate(100'000 + i * 4096).value());
  for (u64 i = 0; i < blocks.size(); i += 2) arena->free(blocks[i]);
  const u64 before = pages_in_use(*arena);
  auto peer = PeerArena::of(Fd(::dup(arena->descriptor()))).value();
  for (u64 i = 1; i < blocks.size(); i += 2) EXPECT_NE(peer.at(*arena->place_of(blocks[i], 100'000), 100'000), nullptr);
  EXPECT_EQ(pages_in_use(*arena), before);
}

TEST(ShmArena, a_file_that_may_shrink_is_refused) {
  Fd file(::memfd_create("shrinks", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(::ftruncate(file.get(), mebibyte), 0);
  EXPECT_FALSE(PeerArena::of(std::move(file)));
}

TEST(ShmArena, detached_memory_is_out_of_reach) {
  const auto arena = Arena::create(64 * mebibyte).value();
  constexpr u64 bytes = 3 * mebibyte;
  auto* memory = static_cast<std::byte*>(arena->allocate(bytes).value());
  auto* other = static_cast<std::byte*>(arena->allocate(bytes).value());
  for (std::byte* block : {memory, other}) fill_pattern(bytes_of(block, bytes), 1);
  auto peer = PeerArena::of(Fd(::dup(arena->descriptor()))).value();
  const u64 place = *arena->place_of(memory, bytes);
  std::byte* seen = peer.at(place, bytes);
  arena->detach(memory + 100'000, 200'000);
  std::memset(seen + 100'000, 0xff, 200'000);
  EXPECT_EQ(first_difference(bytes_of(memory, bytes), 1), bytes);
  memory[100'000] = std::byte{7};
  EXPECT_FALSE(arena->place_of(memory + 50'000, 60'000));
  EXPECT_TRUE(arena->place_of(memory, 50'000));
  EXPECT_TRUE(arena->place_of(other, bytes));
  // A peer that still writes there must not meet another block.
  EXPECT_TRUE(arena->free(memory));
  for (int i = 0; i < 10; ++i) {
    auto* next = static_cast<std::byte*>(arena->allocate(bytes).value());
    const u64 at = *arena->place_of(next, bytes);
    EXPECT_TRUE(at + bytes <= place || at >= place + bytes);
  }
  EXPECT_EQ(first_difference(bytes_of(other, bytes), 1), bytes);
}

namespace {

// One rank, and by hand the lines of its peer, which writes or is written to.
class WriterTest : public testing::Test {
 protected:
  static constexpr u64 bytes = u64{1} << 20;

  void write_line(u64 number, LineKind kind, u64 name, const shm::Announcement& payload) {
    shm::Line& line = channels_.in().lines[number];
    line.name = name;
    std::memcpy(line.payload.data(), &payload, sizeof payload);
    line.head.store(Head{1, kind, 0}.word());
  }
  void end() {
    outgoing_.fail_all();
    incoming_.fail_all();
  }

  Channels channels_;
  std::shared_ptr<Arena> arena_ = Arena::create(64 * mebibyte).value();
  std::shared_ptr<Arena> peer_arena_ = Arena::create(64 * mebibyte).value();
  shm::PeerMemory peer_{PeerArena::of(Fd(::dup(peer_arena_->descriptor()))).value(), {}, 0};
  shm::Health health_;
  shm::StoreChoices stores_;
  shm::Outgoing outgoing_{channels_.out(), channels_.in().sender, *arena_, peer_, stores_, health_};
  std::vector<std::byte> scratch_ = std::vector<std::byte>(shm::Incoming::scratch_bytes);
  shm::Incoming incoming_{channels_.in(), outgoing_, *arena_, peer_, scratch_.data(), nullptr, health_};
};

TEST_F(WriterTest, stopped_within_a_piece_reaches_nobody_once_given_up) {
  auto* memory = static_cast<std::byte*>(arena_->allocate(bytes).value());
  Receive receive;
  receive.stream = 1;
  receive.bytes = bytes;
  receive.memory = memory;
  incoming_.receive(receive);
  write_line(0, LineKind::announcement, 1, {bytes, 77, 0, shm::Announcement::nowhere, 1});
  incoming_.progress();
  const shm::Line& answer = channels_.out().lines[0];
  ASSERT_EQ(Head::of(answer.head.load()).kind, LineKind::place);
  u64 place = 0;
  std::memcpy(&place, answer.payload.data(), sizeof place);
  auto mine = PeerArena::of(Fd(::dup(arena_->descriptor()))).value();
  std::byte* seen = mine.at(place, bytes);
  channels_.in().writing.now = 1;
  fill_pattern(bytes_of(seen, bytes), 5);
  end();
  EXPECT_EQ(receive.state, State::failed);
  std::memset(seen, 0xff, bytes);
  EXPECT_EQ(first_difference(bytes_of(memory, bytes), 5), bytes);
}

TEST_F(WriterTest, does_not_begin_a_piece_for_a_peer_that_gave_up) {
  auto* memory = static_cast<std::byte*>(arena_->allocate(bytes).value());
  fill_pattern(bytes_of(memory, bytes), 5);
  auto* target = static_cast<std::byte*>(peer_arena_->allocate(bytes).value());
  Send send;
  send.stream = 1;
  send.bytes = bytes;
  send.memory = memory;
  send.push = true;
  outgoing_.send(send);
  const u64 place = *peer_arena_->place_of(target, bytes);
  write_line(0, LineKind::place, send.token, {place});
  incoming_.progress();
  channels_.in().sender.closed = 1;
  outgoing_.progress();
  EXPECT_FALSE(health_.good);
  EXPECT_EQ(channels_.out().writing.now, 0U);
  EXPECT_TRUE(std::all_of(target, target + bytes, [](std::byte byte) { return byte == std::byte{0}; }));
  end();
  EXPECT_EQ(send.state, State::failed);
}

TEST_F(WriterTest, writes_where_it_is_told_and_nowhere_else) {
  auto* memory = static_cast<std::byte*>(arena_->allocate(bytes).value());
  fill_pattern(bytes_of(memory, bytes), 5);
  auto* target = static_cast<std::byte*>(peer_arena_->allocate(3 * bytes).value());
  Send send;
  send.stream = 1;
  send.bytes = bytes - 13;
  send.memory = memory;
  send.push = true;
  outgoing_.send(send);
  write_line(0, LineKind::place, send.token, {*peer_arena_->place_of(target + bytes + 5, bytes)});
  incoming_.progress();
  while (send.state == State::waiting) ASSERT_TRUE(outgoing_.progress());
  EXPECT_EQ(Head::of(channels_.out().lines[1].head.load()).kind, LineKind::written);
  EXPECT_EQ(first_difference({target + bytes + 5, bytes - 13}, 5), bytes - 13);
  const auto is_zero = [](std::byte byte) { return byte == std::byte{0}; };
  EXPECT_TRUE(std::all_of(target, target + bytes + 5, is_zero));
  EXPECT_TRUE(std::all_of(target + 2 * bytes - 8, target + 3 * bytes, is_zero));
  // Nor beyond the end of what the peer has.
  Send second;
  second.stream = 1;
  second.bytes = bytes;
  second.memory = memory;
  outgoing_.send(second);
  write_line(1, LineKind::place, second.token, {64 * mebibyte - 5});
  incoming_.progress();
  EXPECT_FALSE(health_.good);
  end();
}

}  // namespace

TEST(ShmMemory, nonsense_of_a_peer_harms_nobody) {
  const char* given = std::getenv("SOFTIB_TEST_SEED");
  const u64 seed = given ? std::strtoull(given, nullptr, 0) : std::random_device()();
  SCOPED_TRACE(testing::Message() << "SOFTIB_TEST_SEED=" << seed);
  for (u64 i = 0; i < 300 && !testing::Test::HasFailure(); ++i) Madness(seed + i).run();
}

}  // namespace softib::coll::test
