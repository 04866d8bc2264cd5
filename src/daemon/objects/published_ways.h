// The ways that address vectors point to, as lists in the arena. Addresses with the same way share its list.
#pragma once

#include <map>
#include <vector>

#include "daemon/objects/world.h"

namespace softib::daemon {

class PublishedWays {
 public:
  explicit PublishedWays(World& world) : world_(world) {}

  // The page of the owner's way, in place of the one that it had; 0: nothing on it matters, or no memory.
  [[nodiscard]] u32 publish(RouteOwner owner, const Way& way, ipc::Reach reach);
  void forget(RouteOwner owner);

 private:
  using Words = std::vector<u32>;  // as they lie in the arena
  struct Entry {
    u64 offset;
    u32 owners;
  };
  using Entries = std::map<Words, Entry>;

  static Words words_of(const Way& way, ipc::Reach reach);
  void release(Entries::iterator entry);

  World& world_;
  Entries entries_;
  std::map<RouteOwner, Entries::iterator> owned_;
};

}  // namespace softib::daemon
