// Address handles.
#pragma once

#include <unordered_map>

#include "daemon/objects/groups.h"
#include "daemon/objects/index_pool.h"
#include "daemon/objects/pds.h"
#include "daemon/objects/published_ways.h"
#include "ipc/protocol.h"

namespace softib::daemon {

struct AhObject {
  u32 context;
  u32 creator;
  u32 pd;
  u32 group;  // 0 = unicast
};

// Where an address vector leads: fills in port or group, way, and the epoch of the answer.
class Resolver {
 public:
  Resolver(World& world, Groups& groups) : world_(world), groups_(groups), ways_(world) {}

  // Unicast. `pkey` 0: not known, not checked on the way.
  void resolve(RouteOwner owner, ipc::AddressVector& av, u32 local_port, u16 pkey = 0);
  // The members that a group's address reaches.
  void resolve_multicast(RouteOwner owner, ipc::AddressVector& av, u32 local_port);
  // Either; a multicast group is acquired, the caller releases it.
  Result<void> resolve_datagram(RouteOwner owner, ipc::AddressVector& av, u32 local_port);
  // The owner goes.
  void forget(RouteOwner owner);

 private:
  void answer(ipc::AddressVector& av, u32 port, u32 way) const;

  World& world_;
  Groups& groups_;
  PublishedWays ways_;
};

class Ahs {
 public:
  Ahs(World& world, Pds& pds, Groups& groups, Resolver& resolver);

  Result<u32> create(u32 context, u32 creator, u32 device, const ipc::CreateAh::Request& request);
  void drop(u32 id);

  // Looks up again where it leads; the port, or ENOENT.
  Result<u32> find_route(u32 id);

  [[nodiscard]] AhObject* find(u32 id);
  [[nodiscard]] const std::unordered_map<u32, AhObject>& all() const { return ahs_; }

 private:
  World& world_;
  Pds& pds_;
  Groups& groups_;
  Resolver& resolver_;
  IndexPool indices_;
  std::unordered_map<u32, AhObject> ahs_;
};

}  // namespace softib::daemon
