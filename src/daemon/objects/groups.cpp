#include "daemon/objects/groups.h"

#include <algorithm>
#include <cstring>

#include "hca/limits.h"

namespace softib::daemon {

namespace {

constexpr u32 group_rest = 64;

}  // namespace

Groups::Groups(World& world) : world_(world), indices_(1, ipc::max_groups, group_rest) {}

Groups::Name Groups::name_of(ipc::LinkLayer layer, const ipc::Gid& mgid, u16 mlid) {
  return {{mgid.raw, mgid.raw + sizeof mgid.raw}, layer == ipc::LinkLayer::ethernet ? u16{0} : mlid};
}

u32 Groups::find(ipc::LinkLayer layer, const ipc::Gid& mgid, u16 mlid) const {
  auto found = by_name_.find(name_of(layer, mgid, mlid));
  return found == by_name_.end() ? 0 : found->second;
}

Result<u32> Groups::find_or_make(ipc::LinkLayer layer, const ipc::Gid& mgid, u16 mlid) {
  if (u32 known = find(layer, mgid, mlid)) return known;
  if (groups_.size() >= hca::limits::max_mcast_groups) return fail(ENOMEM);
  u32 id = indices_.take();
  if (!id) return fail(ENOMEM);
  Name name = name_of(layer, mgid, mlid);
  ipc::Group& group = world_.segment.groups[id];
  World::wipe(group);
  group.mgid = mgid;
  group.mlid = name.second;
  groups_.emplace(id, GroupObject{mgid, name.second, 0, {}, 0});
  by_name_.emplace(std::move(name), id);
  return id;
}

Result<void> Groups::publish(u32 id) {
  GroupObject& object = groups_.at(id);
  u64 list = 0;
  if (!object.members.empty()) {
    auto offset = world_.arena.allocate(object.members.size() * sizeof(u32));
    if (!offset) return fail(offset.error());
    list = *offset;
    std::memcpy(world_.segment.arena + list, object.members.data(), object.members.size() * sizeof(u32));
  }
  ipc::Group& group = world_.segment.groups[id];
  group.sequence.fetch_add(1, std::memory_order_acq_rel);
  std::atomic_thread_fence(std::memory_order_release);
  group.members.store(list, std::memory_order_relaxed);
  group.member_count.store(static_cast<u32>(object.members.size()), std::memory_order_relaxed);
  group.sequence.fetch_add(1, std::memory_order_release);
  world_.free_later(object.published);
  object.published = list;
  return {};
}

Result<void> Groups::attach(ipc::LinkLayer layer, u32 qpn, const ipc::Gid& mgid, u16 mlid) {
  auto id = find_or_make(layer, mgid, mlid);
  if (!id) return fail(id.error());
  auto& members = groups_.at(*id).members;
  if (std::find(members.begin(), members.end(), qpn) != members.end()) return {};
  if (members.size() >= hca::limits::max_mcast_qp_attach) return fail(ENOMEM);
  members.push_back(qpn);
  if (auto published = publish(*id); !published) {
    members.pop_back();
    drop_if_unused(*id);
    return published;
  }
  ++memberships_[qpn];
  return {};
}

bool Groups::remove_member(u32 id, u32 qpn) {
  auto& members = groups_.at(id).members;
  auto found = std::find(members.begin(), members.end(), qpn);
  if (found == members.end()) return false;
  members.erase(found);
  // With no room for a shorter list the old one stays in sight for now: its reader finds the QP gone or unwilling.
  (void)publish(id);
  if (auto count = memberships_.find(qpn); --count->second == 0) memberships_.erase(count);
  drop_if_unused(id);
  return true;
}

Result<void> Groups::detach(ipc::LinkLayer layer, u32 qpn, const ipc::Gid& mgid, u16 mlid) {
  u32 id = find(layer, mgid, mlid);
  if (!id || !remove_member(id, qpn)) return fail(EINVAL);
  return {};
}

void Groups::leave_all(u32 qpn) {
  if (!memberships_.contains(qpn)) return;
  std::vector<u32> ids;
  for (const auto& [id, group] : groups_) ids.push_back(id);
  for (u32 id : ids) remove_member(id, qpn);
}

u32 Groups::memberships(u32 qpn) const {
  auto found = memberships_.find(qpn);
  return found == memberships_.end() ? 0 : found->second;
}

Result<u32> Groups::acquire(ipc::LinkLayer layer, const ipc::Gid& mgid, u16 mlid) {
  auto id = find_or_make(layer, mgid, mlid);
  if (id) ++groups_.at(*id).address_handles;
  return id;
}

void Groups::release(u32 id) {
  auto found = groups_.find(id);
  if (found == groups_.end()) return;
  --found->second.address_handles;
  drop_if_unused(id);
}

void Groups::drop_if_unused(u32 id) {
  const GroupObject& group = groups_.at(id);
  if (!group.members.empty() || group.address_handles) return;
  Name name{{group.mgid.raw, group.mgid.raw + sizeof group.mgid.raw}, group.mlid};
  world_.free_later(group.published);
  world_.segment.groups[id].member_count.store(0, std::memory_order_seq_cst);
  by_name_.erase(name);
  groups_.erase(id);
  world_.limbo.add([this, id] { indices_.give_back(id); });
}

}  // namespace softib::daemon
