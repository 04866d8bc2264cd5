// What a communicator stands on: how its ranks meet, and what then connects them. Tests put other ground under it.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "coll/bootstrap/bootstrap.h"
#include "coll/environment.h"
#include "coll/execute/executor.h"
#include "coll/tune/landscape.h"

namespace softib::coll {

struct Links {
  Routes routes;
  std::vector<Way> ways;  // by peer; one's own is shm
  // Memory that peers of the host read and write in place; nullptr: there are none.
  std::unique_ptr<MemorySource> shared;
  // On all ranks alike: what the network can do.
  Landscape::Network network = Landscape::Network::none;
};

struct Ground {
  std::function<Outcome<UniqueId>()> make_id;
  // A meeting that was made and won't be; may be empty.
  std::function<void(const UniqueId&, const BootstrapOptions&, const Error&)> call_off;
  std::function<Outcome<std::unique_ptr<Bootstrap>>(const UniqueId&, const BootstrapOptions&)> meet;
  // Collective.
  std::function<Outcome<Links>(Bootstrap&, const Environment&)> connect;

  // Sockets to meet; shared memory, queue pairs and TCP to connect.
  [[nodiscard]] static Ground usual();
};

}  // namespace softib::coll
