// Communicators for tests: ranks are threads of the test, and what connects them is up to chance (memory_transport.h).
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "coll/comm/ground.h"
#include "coll/communicator.h"

namespace softib::coll::test {

class World {
 public:
  // `hosts`, by rank, tells who is on one host in communicators of that many ranks; others have one host.
  explicit World(u64 seed, std::vector<u64> hosts = {});
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  [[nodiscard]] Ground ground();
  [[nodiscard]] UniqueId new_id();

  // Runs `body` on each rank's own thread, with a communicator of all.
  void run(u32 ranks, const Config& config, const std::function<void(Communicator&)>& body);
  // Where each makes its communicator itself.
  static void run_threads(u32 ranks, const std::function<void(u32 rank)>& body);

 private:
  struct Room;
  [[nodiscard]] std::shared_ptr<Room> room(const UniqueId& id, u32 ranks);

  std::mutex mutex_;
  u64 seed_;
  std::vector<u64> hosts_;
  u64 next_id_ = 1;
  std::map<u64, std::shared_ptr<Room>> rooms_;
  std::map<const Bootstrap*, std::shared_ptr<Room>> met_;
};

}  // namespace softib::coll::test
