#include "ipoib/groups.h"

#include <algorithm>

namespace softib::ipoib {

namespace {

constexpr u32 ipoib_qkey = 0x0b1b;
constexpr u8 rate_10_gbps = 3;  // what every port can, and what opensm gives IPoIB's groups
constexpr u32 default_mtu = 2048;
constexpr milliseconds first_backoff{1000}, longest_backoff{16'000};
constexpr std::size_t most_groups = 1024;

bool same(const GroupFacts& a, const GroupFacts& b) {
  return a.qkey == b.qkey && a.mtu == b.mtu && a.route.lid == b.route.lid && a.route.sl == b.route.sl &&
         a.route.rate == b.route.rate;
}

}  // namespace

Groups::Groups(Loop& loop, const Port& port, SaClient& client, ibv_qp* pair, u16 pkey, Uses uses)
    : loop_(loop), port_(port), client_(client), pair_(pair), graveyard_(loop), uses_(std::move(uses)) {
  space_.pkey = static_cast<u16>(pkey | 0x8000);
}

Membership Groups::membership(const GidBytes& mgid, JoinState state) const {
  return {mgid, port_.gid(), state, space_.pkey};
}

// Like the partition's broadcast group; that one itself as opensm would make it.
GroupFacts Groups::facts_for_creation(const GidBytes& mgid) const {
  const auto at = members_.find(broadcast());
  if (mgid != broadcast() && at != members_.end()) return at->second.facts;
  GroupFacts facts;
  facts.qkey = ipoib_qkey;
  facts.mtu = default_mtu;
  facts.route.rate = rate_10_gbps;
  return facts;
}

bool Groups::is_ready() {
  const auto at = members_.find(broadcast());
  return at != members_.end() && at->second.handle != nullptr;
}

void Groups::start() {
  stop();
  tried_ = false;
  join(broadcast(), members_[broadcast()], false);
}

void Groups::rejoin() {
  ++epoch_;
  for (auto& [mgid, member] : members_) {
    member.backoff = milliseconds{0};
    join(mgid, member, false);
  }
}

void Groups::stop() {
  ++epoch_;
  for (auto& [mgid, member] : members_) {
    detach(member);
    graveyard_.bury(std::move(member.handle));
  }
  members_.clear();
}

void Groups::leave() {
  for (auto& [mgid, member] : members_)
    if (member.handle) ask_leave(client_, membership(mgid, member.state));
  stop();
}

// -- joining

void Groups::join(const GidBytes& mgid, Member& member, bool create) {
  member.joining = true;
  // The broadcast group is the subnet manager's to make, and made here only when it did not. Others are made by whoever
  // comes first, unless the manager knows no senders that are no members.
  create = create || (mgid != broadcast() && member.state != JoinState::send_only);
  const GroupFacts facts = facts_for_creation(mgid);
  ask_join(client_, membership(mgid, member.state), create ? &facts : nullptr,
           [this, mgid, create, epoch = epoch_](const Result<GroupFacts>& answer) {
             if (epoch == epoch_) settle(mgid, answer, create);
           });
}

void Groups::settle(const GidBytes& mgid, const Result<GroupFacts>& answer, bool created) {
  const auto at = members_.find(mgid);
  if (at == members_.end()) return;
  Member& member = at->second;
  member.joining = false;
  if (answer) return joined(mgid, member, *answer);
  const bool refused = to_int(answer.error()) == EREMOTEIO;
  if (refused && mgid == broadcast() && !created) return join(mgid, member, true);
  if (refused && member.state == JoinState::send_only_full) {
    member.state = JoinState::send_only;
    return join(mgid, member, false);
  }
  if (mgid == broadcast()) tried_ = true;
  retry(mgid, member);
}

void Groups::retry(const GidBytes& mgid, Member& member) {
  member.waiting.clear();
  member.backoff = std::clamp(member.backoff * 2, first_backoff, longest_backoff);
  member.not_before = Clock::now() + member.backoff;
  if (member.state != JoinState::full) return;  // when there is something to send again
  loop_.after(member.backoff, [this, mgid, epoch = epoch_] {
    const auto at = members_.find(mgid);
    if (epoch != epoch_ || at == members_.end() || at->second.joining) return;
    join(mgid, at->second, false);
  });
}

void Groups::joined(const GidBytes& mgid, Member& member, const GroupFacts& facts) {
  member.backoff = milliseconds{0};
  const bool is_broadcast = mgid == broadcast();
  if (!member.handle || !same(member.facts, facts)) {
    auto handle = port_.address_handle(facts.route);
    if (!handle) return retry(mgid, member);
    detach(member);
    graveyard_.bury(std::move(member.handle));
    member.handle = std::move(*handle);
    member.facts = facts;
    if (is_broadcast) uses_.ready(facts);
  }
  if (member.state == JoinState::full && !member.attached) attach(member);
  if (is_broadcast) tried_ = true;
  ibv_ah* const raw = member.handle.get();
  for (const Frame& frame : std::exchange(member.waiting, {})) uses_.deliver({raw, group_qpn}, frame);
  if (is_broadcast) follow();
}

void Groups::attach(Member& member) {
  ibv_gid gid;
  std::copy(member.facts.route.gid.begin(), member.facts.route.gid.end(), gid.raw);
  member.attached = ::ibv_attach_mcast(pair_, &gid, member.facts.route.lid) == 0;
}

void Groups::detach(Member& member) {
  if (!std::exchange(member.attached, false)) return;
  ibv_gid gid;
  std::copy(member.facts.route.gid.begin(), member.facts.route.gid.end(), gid.raw);
  ::ibv_detach_mcast(pair_, &gid, member.facts.route.lid);
}

// -- who is joined

void Groups::want(const std::vector<Ip>& groups) {
  std::set<GidBytes> wanted;
  for (const Ip& ip : groups) wanted.insert(space_.group(ip));
  wanted_ = std::move(wanted);
  follow();
}

void Groups::follow() {
  if (!is_ready()) return;
  for (const GidBytes& mgid : wanted_) {
    const auto at = members_.find(mgid);
    if (at != members_.end() && at->second.state == JoinState::full) continue;
    if (at != members_.end() && at->second.handle) ask_leave(client_, membership(mgid, at->second.state));
    Member& member = members_[mgid];
    member.state = JoinState::full;
    join(mgid, member, false);
  }
  for (auto at = members_.begin(); at != members_.end();) {
    const auto one = at++;
    Member& member = one->second;
    if (member.state != JoinState::full || one->first == broadcast() || wanted_.contains(one->first)) continue;
    detach(member);
    if (member.handle) ask_leave(client_, membership(one->first, JoinState::full));
    graveyard_.bury(std::move(member.handle));
    members_.erase(one);
  }
}

ibv_ah* Groups::find(const GidBytes& mgid) {
  auto at = members_.find(mgid);
  if (at != members_.end() && at->second.handle) [[likely]]
    return at->second.handle.get();
  if (!is_ready() || (at == members_.end() && members_.size() >= most_groups)) return nullptr;
  if (at == members_.end()) {
    at = members_.emplace(mgid, Member{}).first;
    at->second.state = JoinState::send_only_full;
  }
  if (!at->second.joining && Clock::now() >= at->second.not_before) join(mgid, at->second, false);
  return nullptr;
}

void Groups::hold(const GidBytes& mgid, Frame frame) {
  const auto at = members_.find(mgid);
  if (at != members_.end() && at->second.joining) ipoib::hold(at->second.waiting, std::move(frame));
}

}  // namespace softib::ipoib
