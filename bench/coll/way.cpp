// coll_way [--rounds N] [--hca FIRST,SECOND] [--bytes N] [--only latency|rate|summed|exchange]: what the verbs
// transport reaches between two ranks of its own, without a collective above it: half a round trip, one-way rate,
// one-way rate with a sum at the receiver, and both ranks sending and summing at once, as an all-reduce of two does.
// Each rank uses its own HCA (mlx5_0 and mlx5_1 without --hca), so on SoftIB the bytes take the same way as between two
// hosts: softib run host0 -- coll_way. Best and median of the rounds.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "coll/kernels/kernels.h"
#include "coll/ranks.h"
#include "coll/transport/verbs/verbs.h"

namespace {

using namespace softib::coll;
using softib::u32;
using softib::u64;
using Clock = std::chrono::steady_clock;

struct Options {
  u64 rounds = 20;
  u64 bytes = 0;  // 0: several
  std::string only;
  std::string hca[2] = {"=mlx5_0", "=mlx5_1"};
};

class Summing final : public Sink {
 public:
  explicit Summing(float* target) : target_(target) {}
  void take(u64 offset, const void* data, u64 bytes) override {
    float* at = target_ + offset / sizeof(float);
    const void* inputs[] = {at, data};
    kernels::reduce(DataType::float32, Op::sum, at, inputs, bytes / sizeof(float));
  }

 private:
  float* target_;
};

class Rank {
 public:
  Rank(Bootstrap& bootstrap, const Options& options)
      : bootstrap_(bootstrap), options_(options), rounds_(options.rounds) {
    Environment environment = Environment::read();
    if (environment.ib_hca.empty()) environment.ib_hca = *NameFilter::parse(options.hca[bootstrap.rank()]);
    const u32 peer = 1 - bootstrap.rank();
    auto made = VerbsTransport::create(bootstrap, environment, std::span(&peer, 1));
    if (!made) {
      fmt::print(stderr, "coll_way: {}\n", made.error().text);
      std::exit(1);
    }
    transport_ = std::move(*made);
    memory_ = static_cast<char*>(std::aligned_alloc(4096, 2 * longest));
    std::memset(memory_, 1, 2 * longest);
    transport_->hint_memory(memory_, 2 * longest);
  }

  void run() {
    const auto wanted = [&](const char* what) { return options_.only.empty() || options_.only == what; };
    std::vector<u64> short_ones{8, 1024, 8160, 16384, 65536};
    std::vector<u64> long_ones{u64{65536}, u64{1} << 20, u64{16} << 20, u64{64} << 20};
    if (options_.bytes != 0) short_ones = long_ones = {options_.bytes};
    for (const u64 bytes : short_ones) {
      if (wanted("latency")) latency(bytes);
    }
    for (const u64 bytes : long_ones) {
      if (wanted("rate")) rate("one way", bytes, false);
      if (wanted("summed")) rate("one way, summed", bytes, true);
      if (wanted("exchange")) exchange(bytes);
    }
    meet();
  }

 private:
  static constexpr u64 longest = u64{64} << 20;

  [[nodiscard]] bool first() const { return bootstrap_.rank() == 0; }
  void meet() { static_cast<void>(bootstrap_.all_gather({})); }

  void wait(const Operation& operation) {
    while (operation.state == State::waiting) transport_->progress();
    if (operation.state == State::done) return;
    const auto broken = transport_->broken();
    fmt::print(stderr, "coll_way: {}\n", broken ? broken->error.text : "failed");
    std::exit(1);
  }

  void prepare(Operation& operation, u64 bytes) const {
    operation.peer = 1 - bootstrap_.rank();
    operation.bytes = bytes;
  }

  void send(u64 bytes) {
    Send send;
    prepare(send, bytes);
    send.memory = memory_;
    transport_->send(send);
    wait(send);
  }

  void receive(u64 bytes, Sink* sink = nullptr) {
    Receive receive;
    prepare(receive, bytes);
    receive.memory = memory_;
    receive.sink = sink;
    transport_->receive(receive);
    wait(receive);
  }

  void latency(u64 bytes) {
    constexpr u64 trips = 100;
    std::vector<double> times;
    meet();
    for (u64 round = 0; round < rounds_ * 5; round++) {
      const auto begin = Clock::now();
      for (u64 trip = 0; trip < trips; trip++) {
        if (first()) send(bytes);
        receive(bytes);
        if (!first()) send(bytes);
      }
      times.push_back(std::chrono::duration<double, std::micro>(Clock::now() - begin).count() / trips / 2);
    }
    report("half a round trip, us", bytes, times, false);
  }

  void rate(const char* name, u64 bytes, bool sums) {
    const u64 times_each = std::max<u64>((u64{1} << 20) / bytes, 1);
    std::vector<double> rates;
    Summing sink(reinterpret_cast<float*>(memory_ + longest));
    meet();
    for (u64 round = 0; round < rounds_; round++) {
      const auto begin = Clock::now();
      for (u64 i = 0; i < times_each; i++) {
        if (first()) {
          send(bytes);
        } else {
          receive(bytes, sums ? &sink : nullptr);
        }
      }
      if (first()) {
        receive(8);
      } else {
        send(8);
      }
      const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
      rates.push_back(static_cast<double>(bytes * times_each) / seconds / 1e9);
    }
    report(fmt::format("{}, GB/s", name), bytes, rates, true);
  }

  // All-reduce of two: half the data out and half in, summed; then the sums out and in.
  void exchange(u64 bytes) {
    const u64 half = bytes / 2;
    const u64 times_each = std::max<u64>((u64{1} << 20) / bytes, 1);
    std::vector<double> rates;
    meet();
    for (u64 round = 0; round < rounds_; round++) {
      const auto begin = Clock::now();
      for (u64 i = 0; i < times_each; i++) {
        Summing sink(reinterpret_cast<float*>(memory_ + (first() ? 0 : half)));
        both(half, memory_ + (first() ? half : 0), nullptr, &sink);
        both(half, memory_ + (first() ? 0 : half), memory_ + (first() ? half : 0), nullptr);
      }
      const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
      rates.push_back(static_cast<double>(bytes * times_each) / seconds / 1e9);
    }
    report("all-reduce of two, GB/s", bytes, rates, true);
  }

  void both(u64 bytes, const char* from, char* to, Sink* sink) {
    Receive receive;
    prepare(receive, bytes);
    receive.memory = to;
    receive.sink = sink;
    transport_->receive(receive);
    Send send;
    prepare(send, bytes);
    send.memory = from;
    transport_->send(send);
    wait(send);
    wait(receive);
  }

  void report(const std::string& name, u64 bytes, std::vector<double> values, bool more_is_better) const {
    if (!first()) return;
    std::sort(values.begin(), values.end());
    const double best = more_is_better ? values.back() : values.front();
    fmt::print("{:28} {:>10}  best {:8.3f}  median {:8.3f}\n", name, bytes, best, values[values.size() / 2]);
    std::fflush(stdout);
  }

  Bootstrap& bootstrap_;
  const Options& options_;
  u64 rounds_;
  std::unique_ptr<Transport> transport_;
  char* memory_ = nullptr;  // the first half is sent and received, the second summed into
};

}  // namespace

int main(int argc, char** argv) {
  Options options;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string name = argv[i];
    const std::string value = argv[i + 1];
    if (name == "--rounds") options.rounds = std::strtoull(value.c_str(), nullptr, 10);
    if (name == "--bytes") options.bytes = std::strtoull(value.c_str(), nullptr, 10);
    if (name == "--only") options.only = value;
    if (name == "--hca") {
      const auto comma = value.find(',');
      options.hca[0] = value.substr(0, comma);
      options.hca[1] = value.substr(comma + 1);
    }
  }
  test::run_ranks({.as = test::As::processes, .ranks = 2},
                  [&](Bootstrap& bootstrap) { Rank(bootstrap, options).run(); });
  return 0;
}
