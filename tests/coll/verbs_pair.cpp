// coll_verbs_pair --id FILE --rank R [--ranks N] [--messages N] [--asleep]: ranks on hosts of a fabric, each started by
// `softib run`, exchange messages of all kinds over the verbs transport and check what comes. Rank 0 writes the unique
// id to FILE. Prints "connected", then "done" or "lost: WHY". tests/integration/coll_verbs.py runs it.
#include <poll.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "coll/ranks.h"
#include "coll/transport/verbs/verbs.h"

namespace softib::coll::test {

namespace {

struct PairOptions {
  std::string id;
  u32 rank = 0;
  u32 ranks = 2;
  u64 messages = 200;
  bool asleep = false;  // waits on descriptors instead of asking again and again
};

[[noreturn]] void end_with(int status, const std::string& words) {
  std::printf("%s\n", words.c_str());
  std::fflush(stdout);
  std::_Exit(status);
}

template <typename T>
T get(Outcome<T> outcome) {
  if (!outcome) end_with(1, "failed: " + outcome.error().text);
  return std::move(*outcome);
}

UniqueId agree_on_id(const PairOptions& options) {
  UniqueId id;
  if (options.rank == 0) {
    id = get(UniqueId::make());
    const std::string unfinished = options.id + ".part";
    std::ofstream(unfinished, std::ios::binary).write(reinterpret_cast<const char*>(id.bytes.data()), id.bytes.size());
    std::filesystem::rename(unfinished, options.id);
    return id;
  }
  while (!std::filesystem::exists(options.id)) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  std::ifstream(options.id, std::ios::binary).read(reinterpret_cast<char*>(id.bytes.data()), id.bytes.size());
  return id;
}

class Collector final : public Sink {
 public:
  explicit Collector(std::byte* target) : target_(target) {}
  void take(u64 offset, const void* data, u64 bytes) override { std::memcpy(target_ + offset, data, bytes); }

 private:
  std::byte* target_;
};

// One message to a peer and one from it.
struct Exchange {
  Send send{};
  Receive receive{};
  std::vector<std::byte> out;
  std::vector<std::byte> in;
  std::unique_ptr<Collector> sink{};
};

class PairRank {
 public:
  PairRank(Bootstrap& bootstrap, Transport& transport, const PairOptions& options)
      : bootstrap_(bootstrap), transport_(transport), options_(options) {}

  void run() {
    for (u64 number = 0; number < options_.messages; number++) {
      std::vector<std::unique_ptr<Exchange>> exchanges;
      for (u32 peer = 0; peer < options_.ranks; peer++) {
        if (peer != options_.rank) exchanges.push_back(begin(peer, number));
      }
      for (const auto& exchange : exchanges) finish(*exchange, number);
    }
  }

 private:
  static constexpr u64 sizes[] = {8, 5000, 0, 300'000, 64, 3'000'000, 20'000};

  std::unique_ptr<Exchange> begin(u32 peer, u64 number) {
    auto exchange = std::make_unique<Exchange>();
    const u64 bytes = sizes[number % std::size(sizes)];
    exchange->out.resize(bytes);
    exchange->in.resize(bytes);
    fill_pattern(exchange->out, number * options_.ranks + options_.rank);
    for (Operation* operation :
         {static_cast<Operation*>(&exchange->send), static_cast<Operation*>(&exchange->receive)}) {
      operation->peer = peer;
      operation->stream = number % 3;
      operation->bytes = bytes;
    }
    exchange->send.memory = exchange->out.data();
    exchange->receive.memory = exchange->in.data();
    if (number % 2 == 1) {
      exchange->sink = std::make_unique<Collector>(exchange->in.data());
      exchange->receive.sink = exchange->sink.get();
    }
    transport_.receive(exchange->receive);
    transport_.send(exchange->send);
    return exchange;
  }

  void finish(const Exchange& exchange, u64 number) {
    while (exchange.send.state == State::waiting || exchange.receive.state == State::waiting) step();
    look_for_losses();
    if (exchange.send.state != State::done || exchange.receive.state != State::done) end_with(1, "failed, not lost");
    if (first_difference(exchange.in, number * options_.ranks + exchange.receive.peer) != exchange.in.size())
      end_with(1, "wrong data in message " + std::to_string(number));
  }

  void step() {
    if (transport_.progress()) return;
    if (++idle_ % 64 == 0 || options_.asleep) look_for_losses();
    if (!options_.asleep) {
      std::this_thread::yield();
      return;
    }
    if (!transport_.arm()) return;
    std::vector<pollfd> waits;
    for (const int descriptor : transport_.descriptors()) waits.push_back({descriptor, POLLIN, 0});
    waits.push_back({bootstrap_.descriptor(), POLLIN, 0});
    constexpr int long_enough = 20'000;
    if (poll(waits.data(), waits.size(), long_enough) == 0) end_with(1, "nobody woke it");
  }

  void look_for_losses() {
    if (const auto broken = transport_.broken()) end_with(3, "lost: " + broken->error.text);
    const auto news = bootstrap_.news();
    if (news && news->kind == Bootstrap::News::Kind::ended) give_up(news->rank);
  }

  // A rank that ended without a word to the HCA: everything that was sent to it had arrived.
  void give_up(u32 rank) {
    transport_.give_up(rank);
    Send send{};
    send.peer = rank;
    transport_.send(send);
    end_with(send.state == State::failed ? 3 : 1, "lost: rank " + std::to_string(rank) + " ended");
  }

  Bootstrap& bootstrap_;
  Transport& transport_;
  const PairOptions& options_;
  u64 idle_ = 0;
};

PairOptions parse(int argc, char** argv) {
  PairOptions options;
  for (int i = 1; i < argc; i++) {
    const std::string name = argv[i];
    const auto value = [&] { return std::string(i + 1 < argc ? argv[++i] : ""); };
    if (name == "--id") options.id = value();
    if (name == "--rank") options.rank = static_cast<u32>(std::stoul(value()));
    if (name == "--ranks") options.ranks = static_cast<u32>(std::stoul(value()));
    if (name == "--messages") options.messages = std::stoull(value());
    if (name == "--asleep") options.asleep = true;
  }
  return options;
}

}  // namespace

int run_pair(int argc, char** argv) {
  const PairOptions options = parse(argc, argv);
  const UniqueId id = agree_on_id(options);
  auto bootstrap = get(Bootstrap::connect(id, {.ranks = options.ranks, .rank = options.rank}));
  std::vector<u32> peers;
  for (u32 peer = 0; peer < options.ranks; peer++) {
    if (peer != options.rank) peers.push_back(peer);
  }
  auto transport = get(VerbsTransport::create(*bootstrap, Environment::read(), peers));
  std::printf("connected\n");
  std::fflush(stdout);
  PairRank(*bootstrap, *transport, options).run();
  static_cast<void>(bootstrap->all_gather({}));
  transport.reset();
  bootstrap->leave();
  std::printf("done\n");
  return 0;
}

}  // namespace softib::coll::test

int main(int argc, char** argv) { return softib::coll::test::run_pair(argc, argv); }
