#include "daemon/objects/ahs.h"

#include <atomic>

#include "hca/limits.h"
#include "hca/rules/address.h"

namespace softib::daemon {

namespace {

constexpr u32 ah_rest = 256;

}  // namespace

// Port and way before the epoch: who sees the new epoch sees what belongs to it.
void Resolver::answer(ipc::AddressVector& av, u32 port, u32 way) const {
  std::atomic_ref(av.port).store(port, std::memory_order_relaxed);
  std::atomic_ref(av.way).store(way, std::memory_order_relaxed);
  std::atomic_ref(av.route_epoch).store(world_.routes.epoch(), std::memory_order_release);
}

void Resolver::resolve(RouteOwner owner, ipc::AddressVector& av, u32 local_port, u16 pkey) {
  av.group = 0;
  av.reach = ipc::Reach::everyone;
  const Way way = world_.routes.resolve(owner, av, local_port, pkey);
  answer(av, way.ports.empty() ? 0 : way.ports.front(), ways_.publish(owner, way, av.reach));
}

void Resolver::resolve_multicast(RouteOwner owner, ipc::AddressVector& av, u32 local_port) {
  const auto way = world_.routes.resolve_multicast(owner, av, local_port);
  av.reach = way ? ipc::Reach::listed : ipc::Reach::everyone;
  answer(av, 0, ways_.publish(owner, way.value_or(Way{}), av.reach));
}

Result<void> Resolver::resolve_datagram(RouteOwner owner, ipc::AddressVector& av, u32 local_port) {
  ipc::LinkLayer layer = world_.port(local_port).link_layer;
  // Multicast without the group's GID leads nowhere: receivers tell groups apart by it.
  bool grouped = hca::is_multicast(av, layer) && av.is_global && hca::is_multicast_gid(av.dgid);
  if (!grouped) {
    resolve(owner, av, local_port);
    return {};
  }
  auto group = groups_.acquire(layer, av.dgid, av.dlid);
  if (!group) return fail(group.error());
  av.group = *group;
  resolve_multicast(owner, av, local_port);
  return {};
}

void Resolver::forget(RouteOwner owner) {
  ways_.forget(owner);
  world_.routes.forget(owner);
}

Ahs::Ahs(World& world, Pds& pds, Groups& groups, Resolver& resolver)
    : world_(world), pds_(pds), groups_(groups), resolver_(resolver), indices_(1, ipc::max_ahs, ah_rest) {}

AhObject* Ahs::find(u32 id) {
  auto found = ahs_.find(id);
  return found == ahs_.end() ? nullptr : &found->second;
}

Result<u32> Ahs::create(u32 context, u32 creator, u32 device, const ipc::CreateAh::Request& request) {
  if (request.av.port_num < 1 || request.av.port_num > world_.ports_of(device).size()) return fail(EINVAL);
  u32 port = world_.port_index(device, request.av.port_num);
  auto valid = hca::check_address(request.av, world_.port(port), hca::AddressUse::datagram);
  if (!valid) return fail(valid.error());
  if (ahs_.size() >= hca::limits::max_ah) return fail(ENOMEM);
  u32 id = indices_.take();
  if (!id) return fail(ENOMEM);
  ipc::Ah& ah = world_.segment.ahs[id];
  World::wipe(ah);
  ipc::AddressVector av = request.av;
  if (auto resolved = resolver_.resolve_datagram({ipc::ObjectKind::ah, id}, av, port); !resolved) {
    indices_.give_back(id);
    return fail(resolved.error());
  }
  ah.pd = request.pd;
  ah.context = context;
  ah.port = port;
  ah.av = av;
  ah.generation.store(world_.new_generation(), std::memory_order_release);
  pds_.use(request.pd);
  ahs_.emplace(id, AhObject{context, creator, request.pd, av.group});
  return id;
}

Result<u32> Ahs::find_route(u32 id) {
  auto found = ahs_.find(id);
  if (found == ahs_.end()) return fail(ENOENT);
  ipc::Ah& ah = world_.segment.ahs[id];
  const RouteOwner owner{ipc::ObjectKind::ah, id};
  if (!found->second.group) {
    resolver_.resolve(owner, ah.av, ah.port);
    return ah.av.port;
  }
  resolver_.resolve_multicast(owner, ah.av, ah.port);
  return 0;
}

void Ahs::drop(u32 id) {
  auto found = ahs_.find(id);
  if (found == ahs_.end()) return;
  world_.segment.ahs[id].generation.store(0, std::memory_order_seq_cst);
  resolver_.forget({ipc::ObjectKind::ah, id});
  if (found->second.group) groups_.release(found->second.group);
  pds_.unuse(found->second.pd);
  ahs_.erase(found);
  world_.limbo.add([this, id] { indices_.give_back(id); });
}

}  // namespace softib::daemon
