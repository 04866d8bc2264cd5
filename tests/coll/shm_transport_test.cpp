#include "coll/transport/shm/shm_transport.h"

#include <sched.h>

#include <algorithm>
#include <bit>
#include <fstream>
#include <map>
#include <optional>

#include "transport_contract.h"

namespace softib::coll::test {

namespace {

// Blocks are used again and not freed, which takes longer than messages do.
class Blocks : public std::enable_shared_from_this<Blocks> {
 public:
  explicit Blocks(std::shared_ptr<shm::Arena> arena) : arena_(std::move(arena)) {}

  std::shared_ptr<std::byte> take(u64 bytes) {
    const u64 size = std::bit_ceil(std::max<u64>(bytes, 4096));
    std::vector<std::byte*>& kept = kept_[size];
    if (kept.empty()) kept.push_back(static_cast<std::byte*>(arena_->allocate(size).value()));
    std::byte* memory = kept.back();
    kept.pop_back();
    return {memory, [mine = shared_from_this(), size](std::byte* done) { mine->kept_[size].push_back(done); }};
  }

 private:
  std::shared_ptr<shm::Arena> arena_;
  std::map<u64, std::vector<std::byte*>> kept_;
};

// Of each rank its own: one of a thread, or of the process.
thread_local std::shared_ptr<Blocks> blocks_of_rank;

TransportKind shm_kind(std::string name, std::optional<bool> read_peers, bool in_arena) {
  TransportKind kind;
  kind.name = std::move(name);
  kind.create = [read_peers](Bootstrap& bootstrap, std::span<const u32> peers) {
    auto arena = shm::Arena::create(u64{4} << 30).value();
    blocks_of_rank = std::make_shared<Blocks>(arena);
    return shm::make_transport(bootstrap, arena, peers, {.read_peers = read_peers});
  };
  if (in_arena) kind.allocate = [](Transport&, u64 bytes) { return blocks_of_rank->take(bytes); };
  // Chunks are the way that sanitizers can follow.
  kind.threads = read_peers == false && !in_arena;
  return kind;
}

}  // namespace

INSTANTIATE_TEST_SUITE_P(Read, TransportContract, testing::ValuesIn(contract_settings(shm_kind("read", true, false))),
                         setting_name);
INSTANTIATE_TEST_SUITE_P(Chunks, TransportContract,
                         testing::ValuesIn(contract_settings(shm_kind("chunks", false, false))), setting_name);
// The ways take turns until both are known.
INSTANTIATE_TEST_SUITE_P(Tried, TransportContract,
                         testing::ValuesIn(contract_settings(shm_kind("tried", std::nullopt, false))), setting_name);
INSTANTIATE_TEST_SUITE_P(Arena, TransportContract, testing::ValuesIn(contract_settings(shm_kind("arena", false, true))),
                         setting_name);

TEST(ShmTransport, ranks_that_disagree_are_told) {
  run_ranks({.as = As::threads, .ranks = 3}, [](Bootstrap& bootstrap) {
    std::vector<u32> peers{0, 1, 2};
    std::erase(peers, bootstrap.rank());
    const auto transport = shm::make_transport(bootstrap, shm::Arena::create().value(), peers, {}).value();
    const auto meet = [&bootstrap] { EXPECT_TRUE(bootstrap.all_gather({}).has_value()); };
    for (const u64 bytes : {u64{16}, u64{100'000}}) {
      std::vector<std::byte> memory(2 * bytes);
      if (bootstrap.rank() == 1 && bytes == 16) {
        Send send;
        send.peer = 0;
        send.bytes = bytes;
        send.memory = memory.data();
        transport->send(send);
      }
      meet();
      if (bootstrap.rank() == 0 && bytes == 16) {
        Receive receive;
        receive.peer = 1;
        receive.bytes = 2 * bytes;
        receive.memory = memory.data();
        transport->receive(receive);
        EXPECT_EQ(receive.state, State::failed);
        const auto broken = transport->broken();
        ASSERT_TRUE(broken);
        EXPECT_EQ(broken->peer, 1u);
        EXPECT_EQ(broken->error.code, Code::invalid_usage);
        EXPECT_NE(broken->error.text.find("rank 1 on host0 sent 16 bytes where 32"), std::string::npos)
            << broken->error.text;
        EXPECT_FALSE(transport->broken());
      }
      meet();
    }
  });
}

// Nothing has a name once all are connected, so nothing can be left behind.
TEST(ShmTransport, nothing_is_left_of_killed_ranks) {
  run_ranks({.as = As::processes, .ranks = 4, .mortal = {0, 1, 2, 3}}, [](Bootstrap& bootstrap) {
    std::vector<u32> peers{0, 1, 2, 3};
    std::erase(peers, bootstrap.rank());
    const auto transport = shm::make_transport(bootstrap, shm::Arena::create().value(), peers, {}).value();
    EXPECT_TRUE(bootstrap.all_gather({}).has_value());
    std::ifstream sockets("/proc/net/unix");
    std::string line;
    const std::string own = "softib-coll-";
    while (std::getline(sockets, line)) EXPECT_EQ(line.find(own), std::string::npos) << line;
    EXPECT_TRUE(bootstrap.all_gather({}).has_value());
    if (!testing::Test::HasFailure()) die_after(std::chrono::microseconds(1));
    for (;;) ::sched_yield();
  });
}

}  // namespace softib::coll::test
