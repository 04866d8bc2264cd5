#include "coll/schedule/hosts.h"

#include <algorithm>

namespace softib::coll {

namespace {

u32 leader_place(const std::vector<u32>& host, u32 root) {
  const auto found = std::find(host.begin(), host.end(), root);
  return found == host.end() ? 0 : static_cast<u32>(found - host.begin());
}

}  // namespace

Hosts::Hosts(const Problem& problem) : group_(problem.group) {
  std::vector<u32> numbers;
  for (u32 member = 0; member < group_.size; ++member) {
    const u32 number = problem.hosts.empty() ? 0 : problem.hosts[member];
    const auto found = std::find(numbers.begin(), numbers.end(), number);
    const auto host = static_cast<u32>(found - numbers.begin());
    if (found == numbers.end()) {
      numbers.push_back(number);
      members_.emplace_back();
    }
    if (member == group_.index) {
      mine_ = host;
      place_ = static_cast<u32>(members_[host].size());
    }
    members_[host].push_back(member);
  }
}

bool Hosts::equal() const {
  return std::all_of(members_.begin(), members_.end(),
                     [this](const auto& host) { return host.size() == members_[0].size(); });
}

Group Hosts::group_of(const std::vector<u32>& members, u32 place) const {
  Group group{static_cast<u32>(members.size()), place, {}};
  for (const u32 member : members) group.ranks.push_back(group_.rank_of(member));
  return group;
}

Group Hosts::local() const { return group_of(members_[mine_], place_); }

Group Hosts::rail() const {
  std::vector<u32> peers;
  for (const auto& host : members_) peers.push_back(host[place_]);
  return group_of(peers, mine_);
}

Group Hosts::leaders(u32 root) const {
  std::vector<u32> peers;
  for (const auto& host : members_) peers.push_back(host[leader_place(host, root)]);
  return group_of(peers, mine_);
}

u32 Hosts::local_leader(u32 root) const { return leader_place(members_[mine_], root); }

u32 Hosts::host_of(u32 member) const {
  for (u32 host = 0; host < count(); ++host)
    if (std::find(members_[host].begin(), members_[host].end(), member) != members_[host].end()) return host;
  return 0;
}

}  // namespace softib::coll
