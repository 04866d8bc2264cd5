// Multicast groups and their members.
#pragma once

#include <map>
#include <unordered_map>
#include <vector>

#include "daemon/objects/index_pool.h"
#include "daemon/objects/world.h"

namespace softib::daemon {

struct GroupObject {
  ipc::Gid mgid;
  u16 mlid;  // 0 on Ethernet, where the GID alone names the group
  u32 address_handles = 0;
  std::vector<u32> members;  // QPNs
  u64 published = 0;         // arena offset of the list in the segment
};

class Groups {
 public:
  explicit Groups(World& world);

  // Idempotent: a member stays one. ENOMEM.
  Result<void> attach(ipc::LinkLayer layer, u32 qpn, const ipc::Gid& mgid, u16 mlid);
  // EINVAL: no member.
  Result<void> detach(ipc::LinkLayer layer, u32 qpn, const ipc::Gid& mgid, u16 mlid);
  void leave_all(u32 qpn);
  [[nodiscard]] u32 memberships(u32 qpn) const;

  // For an address handle: the group, made if there is none, since members may come later.
  Result<u32> acquire(ipc::LinkLayer layer, const ipc::Gid& mgid, u16 mlid);
  void release(u32 id);

  [[nodiscard]] const std::unordered_map<u32, GroupObject>& all() const { return groups_; }

 private:
  using Name = std::pair<std::vector<u8>, u16>;

  static Name name_of(ipc::LinkLayer layer, const ipc::Gid& mgid, u16 mlid);
  Result<u32> find_or_make(ipc::LinkLayer layer, const ipc::Gid& mgid, u16 mlid);
  [[nodiscard]] u32 find(ipc::LinkLayer layer, const ipc::Gid& mgid, u16 mlid) const;
  // Writes a new list and drops the old one later: readers of the old one go on undisturbed.
  Result<void> publish(u32 id);
  bool remove_member(u32 id, u32 qpn);
  void drop_if_unused(u32 id);

  World& world_;
  IndexPool indices_;
  std::unordered_map<u32, GroupObject> groups_;
  std::map<Name, u32> by_name_;
  std::unordered_map<u32, u32> memberships_;  // by QPN
};

}  // namespace softib::daemon
