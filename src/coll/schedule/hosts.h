// The members of a problem by the hosts that they are on.
#pragma once

#include <vector>

#include "coll/schedule/problem.h"

namespace softib::coll {

// In the order of indices; hosts in the order of their first members.
class Hosts {
 public:
  explicit Hosts(const Problem& problem);

  [[nodiscard]] u32 count() const { return static_cast<u32>(members_.size()); }
  // Have all hosts as many members?
  [[nodiscard]] bool equal() const;
  // The index in the whole group of the member at a place of a host.
  [[nodiscard]] u32 member(u32 host, u32 place) const { return members_[host][place]; }

  [[nodiscard]] Group local() const;  // the members on my host
  // The members at my place of each host, with hosts as indices; if all have as many.
  [[nodiscard]] Group rail() const;
  // One member of each host: the root on its own, the first one elsewhere. Only these may use it.
  [[nodiscard]] Group leaders(u32 root) const;
  [[nodiscard]] u32 local_leader(u32 root) const;
  [[nodiscard]] u32 host_of(u32 member) const;

 private:
  [[nodiscard]] Group group_of(const std::vector<u32>& members, u32 place) const;

  const Group& group_;
  std::vector<std::vector<u32>> members_;
  u32 mine_ = 0;
  u32 place_ = 0;
};

}  // namespace softib::coll
