#include "coll/comm/ground.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <utility>

#include "coll/innetwork/setup.h"
#include "coll/log.h"
#include "coll/transport/shm/shm_transport.h"
#include "coll/transport/tcp/tcp.h"
#include "coll/transport/verbs/verbs.h"

namespace softib::coll {

namespace {

// One for the process: what is allocated for one communicator can be used with all.
Outcome<std::shared_ptr<shm::Arena>> process_arena() {
  static auto& lock = *new std::mutex;
  static auto& kept = *new std::weak_ptr<shm::Arena>;
  const std::lock_guard guard(lock);
  if (auto arena = kept.lock()) return arena;
  auto made = shm::Arena::create();
  if (made) kept = *made;
  return made;
}

class ArenaMemory final : public MemorySource {
 public:
  explicit ArenaMemory(std::shared_ptr<shm::Arena> arena) : arena_(std::move(arena)) {}

  void* allocate(u64 bytes) override {
    const auto made = arena_->allocate(bytes);
    return made ? *made : nullptr;
  }
  void release(void* memory, u64 /*bytes*/) override { arena_->free(memory); }

 private:
  std::shared_ptr<shm::Arena> arena_;
};

// What a rank can and may use. Both sides of a pair have to, so all tell each other.
struct Means {
  u8 shm = 0;
  u8 verbs = 0;
  u8 network = 0;  // it wants the network to combine: a Landscape::Network
};

constexpr std::string_view no_network =
    "SOFTIB_ALGO or SOFTIB_COLLNET_ENABLE asks for in-network reduction, which can't be had, so other algorithms are "
    "used";

Landscape::Network wanted_network(const Environment& environment) {
  if (environment.collnet_enable) return Landscape::Network::any;
  for (const AlgorithmRule& rule : environment.algo)
    if (!rule.all_but &&
        std::find(rule.algorithms.begin(), rule.algorithms.end(), Algorithm::innetwork) != rule.algorithms.end())
      return Landscape::Network::named;
  return Landscape::Network::none;
}

class Connecting {
 public:
  Connecting(Bootstrap& bootstrap, const Environment& environment)
      : bootstrap_(bootstrap), environment_(environment), rank_(bootstrap.rank()), members_(bootstrap.members()) {}

  Outcome<Links> run() {
    links_.ways.assign(members_.size(), Way::shm);
    links_.routes.by_peer.assign(members_.size(), 0);
    left_.assign(members_.size(), true);
    left_[rank_] = false;
    if (auto told = tell_means(); !told) return tl::unexpected(told.error());
    if (auto connected = connect_shm(); !connected) return tl::unexpected(connected.error());
    if (auto connected = connect_verbs(); !connected) return tl::unexpected(connected.error());
    if (auto connected = connect_tcp(); !connected) return tl::unexpected(connected.error());
    grow_tree();
    return std::move(links_);
  }

 private:
  using Pairs = bool (Connecting::*)(u32 a, u32 b) const;

  Outcome<void> tell_means() {
    if (!environment_.shm_disable) {
      auto arena = process_arena();
      if (arena)
        arena_ = *arena;
      else
        log::warn(log_rank(), "no shared memory: {}", arena.error().text);
    }
    const Means mine{arena_ != nullptr, !environment_.ib_disable, static_cast<u8>(wanted_network(environment_))};
    const auto all = bootstrap_.all_gather(std::as_bytes(std::span(&mine, 1)));
    if (!all) return tl::unexpected(all.error());
    for (const Bytes& bytes : *all) {
      Means means;
      if (bytes.size() != sizeof means)
        return refuse(Code::invalid_usage, "ranks run different versions of this library");
      std::memcpy(&means, bytes.data(), sizeof means);
      means_.push_back(means);
    }
    return {};
  }

  [[nodiscard]] i32 log_rank() const { return static_cast<i32>(rank_); }
  [[nodiscard]] bool may_share(u32 a, u32 b) const {
    return a != b && members_[a].host_key == members_[b].host_key && means_[a].shm != 0 && means_[b].shm != 0;
  }
  // Of pairs that don't share memory.
  [[nodiscard]] bool may_use_verbs(u32 a, u32 b) const {
    return a != b && !(shares_ && may_share(a, b)) && means_[a].verbs != 0 && means_[b].verbs != 0;
  }

  // Collective calls are made by all or none: by whether any pair anywhere has use for them.
  [[nodiscard]] bool any_pair(Pairs pairs) const {
    for (u32 a = 0; a < members_.size(); ++a)
      for (u32 b = 0; b < a; ++b)
        if ((this->*pairs)(a, b)) return true;
    return false;
  }

  [[nodiscard]] std::vector<u32> my_peers(Pairs pairs) const {
    std::vector<u32> peers;
    for (u32 peer = 0; peer < members_.size(); ++peer)
      if ((this->*pairs)(rank_, peer)) peers.push_back(peer);
    return peers;
  }

  void add(std::unique_ptr<Transport> transport, const std::vector<u32>& peers, Way way) {
    if (peers.empty()) return;
    for (const u32 peer : peers) {
      links_.ways[peer] = way;
      links_.routes.by_peer[peer] = static_cast<u8>(links_.routes.transports.size());
      left_[peer] = false;
    }
    log::info(log_rank(), Subsystem::init, "{} to {} of {} other ranks", name_of(way), peers.size(),
              members_.size() - 1);
    links_.routes.transports.push_back(std::move(transport));
  }

  Outcome<void> connect_shm() {
    if (environment_.shm_disable) log::info(log_rank(), Subsystem::init, "no shared memory: SOFTIB_SHM_DISABLE is set");
    if (!any_pair(&Connecting::may_share)) return {};
    const std::vector<u32> peers = my_peers(&Connecting::may_share);
    auto made = shm::make_transport(bootstrap_, arena_, peers);
    if (!made) {
      log::warn(log_rank(), "shared memory doesn't work, ranks of one host use the network: {}", made.error().text);
      return {};
    }
    shares_ = true;
    // Alone on its host a rank has no use for memory that others can map. HCAs in software move private memory best.
    if (!peers.empty()) links_.shared = std::make_unique<ArenaMemory>(arena_);
    add(std::move(*made), peers, Way::shm);
    return {};
  }

  Outcome<void> connect_verbs() {
    if (!any_pair(&Connecting::may_use_verbs)) return {};
    const std::vector<u32> peers = my_peers(&Connecting::may_use_verbs);
    auto made = VerbsTransport::create(bootstrap_, environment_, peers);
    if (!made) {
      log::warn(log_rank(), "no verbs device works, so TCP is used, which is much slower: {}", made.error().text);
      return {};
    }
    add(std::move(*made), peers, Way::verbs);
    return {};
  }

  // Who is left over is the same on both sides of a pair, but not known of pairs elsewhere: all call it.
  Outcome<void> connect_tcp() {
    std::vector<u32> peers;
    for (u32 peer = 0; peer < members_.size(); ++peer)
      if (left_[peer]) peers.push_back(peer);
    if (environment_.ib_disable) log::info(log_rank(), Subsystem::init, "no verbs: SOFTIB_IB_DISABLE is set");
    auto made = tcp::create(bootstrap_, environment_, peers);
    if (!made) return tl::unexpected(made.error());
    add(std::move(*made), peers, Way::tcp);
    return {};
  }

  // What can't be had is no error: other algorithms do the same.
  void grow_tree() {
    using Network = Landscape::Network;
    const auto wanted = static_cast<Network>(means_[0].network);
    if (members_.size() < 2) return;
    for (const Means& means : means_)
      if (static_cast<Network>(means.network) != wanted) {
        if (rank_ == 0) log::warn(log_rank(), "{}: not all ranks have it alike", no_network);
        return;
      }
    if (wanted == Network::none) return;
    auto tree = innetwork::make_tree(bootstrap_, environment_);
    if (tree) {
      links_.routes.tree = std::move(*tree);
      links_.network = wanted;
    } else if (rank_ == 0) {
      log::warn(log_rank(), "{}: {}", no_network, tree.error().text);
    }
  }

  Bootstrap& bootstrap_;
  const Environment& environment_;
  const u32 rank_;
  const std::span<const Member> members_;
  std::vector<Means> means_;  // by rank
  std::shared_ptr<shm::Arena> arena_;
  bool shares_ = false;
  std::vector<bool> left_;  // peers that nothing connects yet
  Links links_;
};

}  // namespace

Ground Ground::usual() {
  return {
      &UniqueId::make_apart, &Bootstrap::call_off, &Bootstrap::connect,
      [](Bootstrap& bootstrap, const Environment& environment) { return Connecting(bootstrap, environment).run(); }};
}

}  // namespace softib::coll
