#include "daemon/routes.h"

#include <algorithm>
#include <cstring>

namespace softib::daemon {

namespace {

std::array<u8, 16> bytes_of(const ipc::Gid& gid) {
  std::array<u8, 16> bytes;
  std::memcpy(bytes.data(), gid.raw, bytes.size());
  return bytes;
}

}  // namespace

void Routes::rebuild() {
  port_of_gid_.clear();
  for (auto& entry : segment_.port_of_lid) {
    if (entry.load(std::memory_order_relaxed)) entry.store(0, std::memory_order_relaxed);
  }
  for (u32 index = 1; index < subnets_.size(); ++index) {
    const ipc::Port& port = segment_.ports[index];
    u32 first = port.lid;
    if (port.lid) {
      for (u32 lid = first; lid < first + (1U << (port.lmc & 7)) && lid < ipc::lid_count; ++lid)
        segment_.port_of_lid[lid].store(index, std::memory_order_relaxed);
    }
    for (u32 gid = 0; gid < std::min<u32>(port.gid_count, ipc::max_gids_per_port); ++gid)
      port_of_gid_[bytes_of(port.gids[gid])] = index;
  }
  expire();
}

u32 Routes::look_up(const ipc::AddressVector& av, const ipc::Port& local) const {
  if (local.link_layer == ipc::LinkLayer::infiniband)
    return av.dlid < ipc::lid_count ? segment_.port_of_lid[av.dlid].load(std::memory_order_relaxed) : 0;
  auto found = port_of_gid_.find(bytes_of(av.dgid));
  return found == port_of_gid_.end() ? 0 : found->second;
}

Way Routes::resolve(RouteOwner owner, const ipc::AddressVector& av, u32 local, u16 pkey) const {
  if (local == 0 || local >= subnets_.size()) return {};
  if (ways_ && segment_.ports[local].link_layer == ipc::LinkLayer::infiniband)
    return ways_->find(owner, local, av.dlid, av.sl, pkey);
  const u32 found = look_up(av, segment_.ports[local]);
  if (found == 0 || found >= subnets_.size() || subnets_[found] != subnets_[local]) return {};
  return {{found}, {}, {}};
}

std::optional<Way> Routes::resolve_multicast(RouteOwner owner, const ipc::AddressVector& av, u32 local) const {
  if (!ways_ || local >= subnets_.size() || segment_.ports[local].link_layer != ipc::LinkLayer::infiniband)
    return std::nullopt;
  return ways_->find_multicast(owner, local, av.dlid, av.sl);
}

}  // namespace softib::daemon
