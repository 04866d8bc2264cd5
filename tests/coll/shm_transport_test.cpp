#include "coll/transport/shm/shm_transport.h"

#include "transport_contract.h"

namespace softib::coll::test {

namespace {

TransportKind shm_kind(std::string name, bool read_peers, bool in_arena) {
  // Of each rank its own; a process has the parent's copy, a thread its own variable.
  static thread_local std::shared_ptr<shm::Arena> arena;
  TransportKind kind;
  kind.name = std::move(name);
  kind.create = [read_peers](Bootstrap& bootstrap, std::span<const u32> peers) {
    arena = shm::Arena::create().value();
    return shm::make_transport(bootstrap, arena, peers, {.read_peers = read_peers});
  };
  if (in_arena)
    kind.allocate = [](Transport&, u64 bytes) {
      return std::shared_ptr<std::byte>(static_cast<std::byte*>(arena->allocate(bytes).value()),
                                        [mine = arena](std::byte* memory) { EXPECT_TRUE(mine->free(memory)); });
    };
  return kind;
}

}  // namespace

INSTANTIATE_TEST_SUITE_P(Read, TransportContract, testing::ValuesIn(contract_settings(shm_kind("read", true, false))),
                         setting_name);
INSTANTIATE_TEST_SUITE_P(Chunks, TransportContract,
                         testing::ValuesIn(contract_settings(shm_kind("chunks", false, false))), setting_name);
INSTANTIATE_TEST_SUITE_P(Arena, TransportContract, testing::ValuesIn(contract_settings(shm_kind("arena", false, true))),
                         setting_name);

}  // namespace softib::coll::test
