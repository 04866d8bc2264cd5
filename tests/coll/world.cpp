#include "world.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <set>
#include <thread>

#include "local_bootstrap.h"
#include "memory_transport.h"
#include "memory_tree.h"

namespace softib::coll::test {

struct World::Room {
  Room(u32 ranks, const std::vector<u64>& hosts) : meeting(ranks, hosts.size() == ranks ? hosts : std::vector<u64>{}) {}

  LocalMeeting meeting;
  std::shared_ptr<MemoryHub> hub = std::make_shared<MemoryHub>();
  std::shared_ptr<MemoryTreeHub> tree = std::make_shared<MemoryTreeHub>();
};

World::World(u64 seed, std::vector<u64> hosts) : seed_(seed), hosts_(std::move(hosts)) {}
World::~World() = default;

UniqueId World::new_id() {
  const std::lock_guard lock(mutex_);
  UniqueId id;
  const u64 number = next_id_++;
  std::memcpy(id.bytes.data(), &number, sizeof number);
  return id;
}

std::shared_ptr<World::Room> World::room(const UniqueId& id, u32 ranks) {
  u64 number = 0;
  std::memcpy(&number, id.bytes.data(), sizeof number);
  const std::lock_guard lock(mutex_);
  std::shared_ptr<Room>& found = rooms_[number];
  if (!found) found = std::make_shared<Room>(ranks, hosts_);
  return found;
}

namespace {

// The first rank of each host is in it, where there are several.
void grow_tree(Links& links, const Bootstrap& bootstrap, const std::shared_ptr<MemoryTreeHub>& hub, u64 seed) {
  std::vector<u32> leaders;
  std::set<u64> hosts;
  for (const Member& member : bootstrap.members())
    if (hosts.insert(member.host_key).second) leaders.push_back(member.rank);
  if (leaders.size() < 2) return;
  links.network = Landscape::Network::any;
  if (std::find(leaders.begin(), leaders.end(), bootstrap.rank()) != leaders.end())
    links.routes.tree =
        make_memory_tree(hub, leaders, bootstrap.rank(), static_cast<u32>(bootstrap.members().size()), seed);
}

}  // namespace

Ground World::ground() {
  Ground ground;
  ground.make_id = [this]() -> Outcome<UniqueId> { return new_id(); };
  ground.meet = [this](const UniqueId& id, const BootstrapOptions& options) -> Outcome<std::unique_ptr<Bootstrap>> {
    const std::shared_ptr<Room> place = room(id, options.ranks);
    std::unique_ptr<Bootstrap> bootstrap = place->meeting.join(options.rank);
    const std::lock_guard lock(mutex_);
    met_[bootstrap.get()] = place;
    return bootstrap;
  };
  ground.connect = [this](Bootstrap& bootstrap, const Environment&) -> Outcome<Links> {
    const std::lock_guard lock(mutex_);
    Links links;
    const u64 seed = seed_ = seed_ * 6364136223846793005 + 1442695040888963407;
    links.routes.transports.push_back(make_memory_transport(met_[&bootstrap]->hub, bootstrap.rank(), seed));
    links.routes.by_peer.assign(bootstrap.members().size(), 0);
    links.ways.assign(bootstrap.members().size(), Way::shm);
    grow_tree(links, bootstrap, met_[&bootstrap]->tree, seed);
    return links;
  };
  return ground;
}

void World::run(u32 ranks, const Config& config, const std::function<void(Communicator&)>& body) {
  const UniqueId id = new_id();
  const Ground under = ground();
  run_threads(ranks, [&](u32 rank) {
    const auto made = Communicator::create_on(under, id, ranks, rank, config);
    if (!made) {
      std::fprintf(stderr, "no communicator: %s\n", made.error().text.c_str());
      std::abort();
    }
    body(**made);
  });
}

void World::run_threads(u32 ranks, const std::function<void(u32 rank)>& body) {
  std::vector<std::thread> threads;
  for (u32 rank = 0; rank < ranks; ++rank) threads.emplace_back([&body, rank] { body(rank); });
  for (std::thread& thread : threads) thread.join();
}

}  // namespace softib::coll::test
