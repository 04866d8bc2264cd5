// coll_shm [rounds [latency]]: what the transport through shared memory reaches between two pinned processes, beside
// memcpy and the hop of one cache line, each in turn; medians over the rounds.
//
//   hop        a flag goes from one core to the other: half a round trip. Nothing between two ranks can be quicker.
//              "exchange of flags": both raise one and wait for the other's
//   one way    8 bytes by send(), receive(), progress(): half a round trip
//   exchange   both send 8 bytes and wait for the other's: what an all-reduce of two ranks needs at least
//
// Rates are GB/s of message, one way at a time, and ("both") of each direction with both at once. "reduce" adds what
// comes to memory of the receiver instead of copying it.
#include <fmt/format.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <vector>

#include "coll/kernels/kernels.h"
#include "coll/transport/shm/shm_transport.h"

namespace {

using softib::i32;
using softib::u32;
using softib::u64;
namespace coll = softib::coll;
namespace kernels = softib::coll::kernels;
namespace shm = softib::coll::shm;

using Clock = std::chrono::steady_clock;

// What both processes have, on lines of their own.
struct Flag {
  alignas(128) std::atomic<u64> value;
};
struct Table {
  std::array<Flag, 2> flags;
  std::array<Flag, 2> met;
  std::array<u64, 2> sizes;
  std::array<std::array<std::byte, 4096>, 2> blobs;
};

[[noreturn]] void die(const std::string& why) {
  fmt::print(stderr, "coll_shm: {}\n", why);
  std::exit(1);
}

class Pair final : public coll::Bootstrap {
 public:
  Pair(Table& table, u32 rank) : table_(table), rank_(rank) {
    members_ = {{.rank = 0, .host = "here", .address = ""}, {.rank = 1, .host = "here", .address = ""}};
  }
  void meet() {
    table_.met[rank_].value.store(++met_, std::memory_order_release);
    while (table_.met[1 - rank_].value.load(std::memory_order_acquire) < met_) {
    }
  }
  [[nodiscard]] u32 rank() const override { return rank_; }
  [[nodiscard]] std::span<const coll::Member> members() const override { return members_; }
  [[nodiscard]] coll::Outcome<std::vector<coll::Bytes>> all_gather(std::span<const std::byte> given) override {
    table_.sizes[rank_] = given.size();
    std::copy(given.begin(), given.end(), table_.blobs[rank_].begin());
    meet();
    std::vector<coll::Bytes> all;
    for (u32 rank = 0; rank < 2; ++rank)
      all.emplace_back(table_.blobs[rank].data(), table_.blobs[rank].data() + table_.sizes[rank]);
    meet();
    return all;
  }
  [[nodiscard]] std::optional<News> news() override { return std::nullopt; }
  void abort(const std::string& why) override { die(why); }
  void blame(u32, u64) override {}
  void leave() override {}
  void say(const std::string&) override {}
  [[nodiscard]] int descriptor() const override { return -1; }

 private:
  Table& table_;
  u32 rank_;
  u64 met_ = 0;
  std::vector<coll::Member> members_;
};

// Sums what comes to floats of its own.
class Adder final : public coll::Sink {
 public:
  explicit Adder(std::byte* memory) : memory_(memory) {}
  void take(u64 offset, const void* data, u64 bytes) override {
    const std::array<const void*, 2> inputs{memory_ + offset, data};
    kernels::reduce(coll::DataType::float32, coll::Op::sum, memory_ + offset, inputs, bytes / 4);
  }

 private:
  std::byte* memory_;
};

enum class How : softib::u8 { copy, reduce, lend };

class Bench {
 public:
  Bench(Table& table, u32 rank) : table_(table), pair_(table, rank), rank_(rank) {
    auto arena = shm::Arena::create();
    if (!arena) die(arena.error().text);
    arena_ = *arena;
    const std::array<u32, 1> peers{1 - rank};
    for (const bool read : {true, false}) {
      auto made = shm::make_transport(pair_, arena_, peers, {.read_peers = read});
      if (!made) die(made.error().text);
      (read ? reading_ : chunked_) = std::move(*made);
    }
    for (std::byte*& memory : plain_) {
      memory = static_cast<std::byte*>(std::aligned_alloc(4096, largest));
      std::memset(memory, 0, largest);
    }
    for (std::byte*& memory : shared_) {
      auto allocated = arena_->allocate(largest);
      if (!allocated) die(allocated.error().text);
      memory = static_cast<std::byte*>(*allocated);
      std::memset(memory, 0, largest);
    }
  }

  void run(int rounds, bool latency_only) {
    for (int round = 0; round < rounds; ++round) {
      note("hop", time_of(latency_count, [this](u64 count) { hop(count); }) / 2);
      note("exchange of flags", time_of(latency_count, [this](u64 count) { exchange_flags(count); }));
      note("one way, 8 bytes", time_of(latency_count, [this](u64 count) { ping(*reading_, count, 8); }) / 2);
      note("one way, 1 KiB", time_of(latency_count / 4, [this](u64 count) { ping(*reading_, count, 1024); }) / 2);
      note("one way, 16 KiB", time_of(latency_count / 16, [this](u64 count) { ping(*reading_, count, 16384); }) / 2);
      note("exchange, 8 bytes", time_of(latency_count, [this](u64 count) { exchange_small(count); }));
      note("progress, nothing to do", time_of(latency_count, [this](u64 count) { idle(count); }));
      if (!latency_only)
        for (const u64 bytes : sizes) rates(bytes);
    }
  }

  void print() {
    for (const auto& name : names_) {
      std::vector<double>& values = values_[name];
      std::sort(values.begin(), values.end());
      const double median = values[values.size() / 2];
      const auto size = sizes_.find(name);
      if (size == sizes_.end())
        fmt::print("{:<44}{:9.1f} ns\n", name, median * 1e9);
      else
        fmt::print("{:<44}{:9.2f} GB/s\n", name, static_cast<double>(size->second) / median * 1e-9);
    }
  }

 private:
  static constexpr u64 latency_count = 100'000;
  static constexpr u64 largest = u64{64} << 20;
  static constexpr std::array<u64, 6> sizes{u64{4} << 10,   u64{16} << 10, u64{64} << 10,
                                            u64{256} << 10, u64{1} << 20,  largest};

  double time_of(u64 count, const std::function<void(u64)>& body) {
    pair_.meet();
    body(count / 10 + 1);
    pair_.meet();
    const auto start = Clock::now();
    body(count);
    pair_.meet();
    return std::chrono::duration<double>(Clock::now() - start).count() / static_cast<double>(count);
  }

  void note(const std::string& name, double seconds, u64 bytes = 0) {
    if (!values_.contains(name)) names_.push_back(name);
    values_[name].push_back(seconds);
    if (bytes) sizes_[name] = bytes;
  }

  void hop(u64 count) {
    for (u64 i = 0; i < count; ++i) {
      ++hops_;
      if (rank_ == 0) table_.flags[0].value.store(hops_, std::memory_order_release);
      while (table_.flags[1 - rank_].value.load(std::memory_order_acquire) != hops_) {
      }
      if (rank_ == 1) table_.flags[1].value.store(hops_, std::memory_order_release);
    }
  }

  void exchange_flags(u64 count) {
    for (u64 i = 0; i < count; ++i) {
      ++hops_;
      table_.flags[rank_].value.store(hops_, std::memory_order_release);
      while (table_.flags[1 - rank_].value.load(std::memory_order_acquire) < hops_) {
      }
    }
  }

  static void finish(coll::Transport& transport, const coll::Operation& operation) {
    while (operation.state == coll::State::waiting) transport.progress();
    if (operation.state == coll::State::failed) die("a message failed");
  }

  void begin_send(coll::Transport& transport, coll::Send& send, const std::byte* memory, u64 bytes) {
    send.peer = 1 - rank_;
    send.bytes = bytes;
    send.memory = memory;
    transport.send(send);
  }
  void begin_receive(coll::Transport& transport, coll::Receive& receive, std::byte* memory, u64 bytes) {
    receive.peer = 1 - rank_;
    receive.bytes = bytes;
    receive.memory = memory;
    transport.receive(receive);
  }

  void ping(coll::Transport& transport, u64 count, u64 bytes) {
    coll::Send send;
    coll::Receive receive;
    for (u64 i = 0; i < count; ++i) {
      if (rank_ == 0) begin_send(transport, send, plain_[0], bytes);
      begin_receive(transport, receive, plain_[1], bytes);
      finish(transport, receive);
      if (rank_ == 1) begin_send(transport, send, plain_[0], bytes);
      finish(transport, send);
    }
  }

  void exchange_small(u64 count) {
    coll::Send send;
    coll::Receive receive;
    for (u64 i = 0; i < count; ++i) {
      begin_send(*reading_, send, plain_[0], 8);
      begin_receive(*reading_, receive, plain_[1], 8);
      finish(*reading_, receive);
      finish(*reading_, send);
    }
  }

  void idle(u64 count) {
    for (u64 i = 0; i < count; ++i) reading_->progress();
  }

  struct Way {
    coll::Transport& transport;
    const std::byte* from;
    std::byte* to;
    How how = How::copy;
  };

  void begin(const Way& way, coll::Receive& receive, Adder& adder, u64 bytes) {
    receive.sink = way.how == How::reduce ? &adder : nullptr;
    receive.lend = way.how == How::lend;
    begin_receive(way.transport, receive, way.to, bytes);
  }
  static void end(const Way& way, coll::Receive& receive, Adder& adder, u64 bytes) {
    finish(way.transport, receive);
    if (way.how != How::lend) return;
    adder.take(0, receive.data, bytes);
    way.transport.release(receive);
  }

  void stream(const Way& way, u64 count, u64 bytes, bool both) {
    coll::Send send;
    coll::Receive receive;
    Adder adder(way.to);
    send.lend = way.how == How::lend;
    const bool sends = both || rank_ == 0;
    const bool receives = both || rank_ == 1;
    for (u64 i = 0; i < count; ++i) {
      if (receives) begin(way, receive, adder, bytes);
      if (sends) begin_send(way.transport, send, way.from, bytes);
      if (receives) end(way, receive, adder, bytes);
      if (sends) finish(way.transport, send);
    }
  }

  void rates(u64 bytes) {
    const u64 count = std::max<u64>(2, (u64{64} << 20) / bytes);
    const std::string size = bytes < 1 << 20 ? fmt::format("{} KiB", bytes >> 10) : fmt::format("{} MiB", bytes >> 20);
    const auto rate = [&](const std::string& name, const Way& way) {
      note(fmt::format("{}, {}", size, name), time_of(count, [&](u64 times) { stream(way, times, bytes, false); }),
           bytes);
      note(fmt::format("{}, {}, both", size, name), time_of(count, [&](u64 times) { stream(way, times, bytes, true); }),
           bytes);
    };
    const auto copy = [&](u64 times) {
      for (u64 i = 0; i < times; ++i) std::memcpy(plain_[1], plain_[0], bytes);
    };
    note(fmt::format("{}, memcpy", size),
         time_of(count,
                 [&](u64 times) {
                   if (rank_ == 0) copy(times);
                 }),
         bytes);
    note(fmt::format("{}, memcpy, both", size), time_of(count, copy), bytes);
    rate("plain, read", {*reading_, plain_[0], plain_[1]});
    rate("plain, chunks", {*chunked_, plain_[0], plain_[1]});
    rate("plain, reduce, read", {*reading_, plain_[0], plain_[1], How::reduce});
    rate("plain, reduce, chunks", {*chunked_, plain_[0], plain_[1], How::reduce});
    rate("arena", {*reading_, shared_[0], shared_[1]});
    rate("arena, reduce", {*reading_, shared_[0], shared_[1], How::reduce});
    rate("arena, lent and reduced", {*reading_, shared_[0], shared_[1], How::lend});
  }

  Table& table_;
  Pair pair_;
  u32 rank_;
  u64 hops_ = 0;
  std::shared_ptr<shm::Arena> arena_;
  std::unique_ptr<coll::Transport> reading_;
  std::unique_ptr<coll::Transport> chunked_;
  std::array<std::byte*, 2> plain_{};
  std::array<std::byte*, 2> shared_{};
  std::vector<std::string> names_;
  std::map<std::string, std::vector<double>> values_;
  std::map<std::string, u64> sizes_;
};

void pin_to(u32 core) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(core, &set);
  if (::sched_setaffinity(0, sizeof set, &set) < 0) die("needs two cores");
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 5;
  if (rounds < 1) die("usage: coll_shm [rounds]");
  void* memory = ::mmap(nullptr, sizeof(Table), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) die("no memory");
  auto* table = new (memory) Table{};
  const pid_t child = ::fork();
  if (child < 0) die("can't fork");
  if (child == 0) ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  const u32 rank = child == 0 ? 1 : 0;
  pin_to(rank);
  Bench bench(*table, rank);
  bench.run(rounds, argc > 2);
  if (rank == 1) ::_exit(0);
  bench.print();
  ::waitpid(child, nullptr, 0);
  return 0;
}
