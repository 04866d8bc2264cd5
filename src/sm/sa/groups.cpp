#include "sm/sa/groups.h"

#include <algorithm>

#include "wire/mad.h"

namespace softib::sm::sa {

namespace {

using namespace member;  // names of its fields

constexpr u64 join_components = bit(has_mgid) | bit(has_port_gid) | bit(has_join_state);
constexpr u64 create_components =
    join_components | bit(has_qkey) | bit(has_class) | bit(has_pkey) | bit(has_flow) | bit(has_sl);

Selector selector(const Query& query, wire::Field field) { return static_cast<Selector>(query.get(field)); }

bool is_zero(const GidBytes& gid) {
  return std::all_of(gid.begin(), gid.end(), [](u8 byte) { return byte == 0; });
}

u16 signature(const GidBytes& mgid) { return static_cast<u16>(mgid[2] << 8 | mgid[3]); }

bool good_mgid(const GidBytes& mgid) {
  constexpr u16 ipv4 = 0x401b, ipv6 = 0x601b, given_by_us = 0xa01b;
  constexpr u8 link_local = 2;
  if (mgid[0] != 0xff) return false;
  if (signature(mgid) == ipv4 || signature(mgid) == ipv6) return true;
  if (mgid[1] & 0xe0) return false;  // reserved flags
  return signature(mgid) != given_by_us || (mgid[1] & 15) != link_local;
}

}  // namespace

void Groups::plan(const std::vector<fabric::PlannedGroup>& groups) {
  for (const fabric::PlannedGroup& planned : groups) {
    Group group;
    group.mgid = planned.mgid;
    group.mlid = free_mlid();
    group.qkey = planned.flags.qkey;
    group.pkey = planned.pkey;
    group.mtu = planned.flags.mtu;
    group.rate = planned.flags.rate;
    group.sl = planned.flags.sl;
    group.traffic_class = planned.flags.traffic_class;
    group.flow_label = planned.flags.flow_label;
    group.planned = true;
    if (group.mlid != 0) groups_.emplace(group.mgid, group);
  }
}

// -- joining

Groups::Outcome Groups::join(const Query& query) {
  Outcome outcome;
  const auto refuse = [&](SaStatus status) {
    outcome.status = status;
    return outcome;
  };
  if ((query.mask & join_components) != join_components) return refuse(SaStatus::insufficient_components);
  End port;
  if (const SaStatus status = check_port(query, port); status != SaStatus::ok) return refuse(status);
  const auto states = static_cast<u8>(query.get(join_state));
  if (states == 0) return refuse(SaStatus::request_invalid);

  const GidBytes wanted = query.gid(mgid_at);
  auto at = groups_.find(wanted);
  if (at == groups_.end()) {
    if (!(states & (full_join | send_only_full_join))) return refuse(SaStatus::request_invalid);
    Group group;
    if (const SaStatus status = create(query, port, group); status != SaStatus::ok) return refuse(status);
    at = groups_.emplace(group.mgid, group).first;
    outcome.change.created = true;
  } else if (const SaStatus status = fits(query, port, at->second); status != SaStatus::ok) {
    return refuse(status);
  }
  Group& group = at->second;
  const u64 guid = view_.subnet.port(port).guid;
  const bool was = group.members.contains(guid);
  Member& joined = group.members[guid];
  joined.join_state |= states;
  if (!was && query.from != port) {
    joined.proxy = true;
    joined.asker = query.from.node == nowhere ? 0 : view_.subnet.port(query.from).guid;
  }
  outcome.record = record(group, guid, joined);
  outcome.change.mlid = group.mlid;
  outcome.change.mgid = group.mgid;
  return outcome;
}

// The port to be joined: of this subnet, and in one partition with whoever asks for it.
SaStatus Groups::check_port(const Query& query, End& port) const {
  const auto end = end_of_gid(view_, query.gid(port_gid_at));
  if (!end) return SaStatus::invalid_gid;
  port = *end;
  if (!visible(view_, query, port)) return SaStatus::request_invalid;
  if (!query.has(has_pkey)) return SaStatus::ok;
  const auto key = static_cast<u16>(query.get(pkey));
  const bool both = holds_pkey(view_.subnet.port(port), key) && holds_pkey(view_.subnet.port(query.from), key);
  return both ? SaStatus::ok : SaStatus::request_invalid;
}

SaStatus Groups::create(const Query& query, End, Group& group) const {
  if ((query.mask & create_components) != create_components) return SaStatus::insufficient_components;
  group.mgid = query.gid(mgid_at);
  if (!is_zero(group.mgid) && !good_mgid(group.mgid)) return SaStatus::request_invalid;
  if (is_zero(group.mgid)) group.mgid = invent_mgid(query);
  if (!choose_mtu(query, group) || !choose_rate(query, group)) return SaStatus::request_invalid;
  if (query.has(has_life_selector) && query.has(has_life)) {
    const auto asked = static_cast<u8>(query.get(life));
    const Selector how = selector(query, life_selector);
    if (how == Selector::less && asked == 0) return SaStatus::request_invalid;
    if (how == Selector::exactly) group.life = asked;
    if (how == Selector::greater && group.life <= asked) group.life = static_cast<u8>(std::min(asked + 1, 63));
    if (how == Selector::less && group.life >= asked) group.life = static_cast<u8>(asked - 1);
  }
  group.qkey = static_cast<u32>(query.get(qkey));
  group.pkey = static_cast<u16>(query.get(pkey));
  group.sl = static_cast<u8>(query.get(sl));
  group.traffic_class = static_cast<u8>(query.get(traffic_class));
  group.flow_label = static_cast<u32>(query.get(flow_label));
  if (query.has(has_hop)) group.hop_limit = static_cast<u8>(query.get(hop_limit));
  group.mlid = free_mlid();
  return group.mlid == 0 ? SaStatus::no_resources : SaStatus::ok;
}

// What every port of the subnet can do is what a group may be given.
bool Groups::choose_mtu(const Query& query, Group& group) const {
  u8 least = 5;
  for (const End end : view_.subnet.ends)
    if (!view_.subnet.node(end).is_switch() && view_.subnet.port(end).linked())
      least = std::min(least, static_cast<u8>(view_.subnet.port(end).get(port_info::neighbor_mtu)));
  group.mtu = least;
  if (!query.has(has_mtu) || !query.has(has_mtu_selector)) return true;
  const auto asked = static_cast<u8>(query.get(mtu));
  switch (selector(query, mtu_selector)) {
    case Selector::greater:
      return asked >= 1 && least > asked;
    case Selector::less:
      group.mtu = std::min<u8>(least, static_cast<u8>(asked - 1));
      return asked > 1;
    case Selector::exactly:
      group.mtu = asked;
      return asked >= 1 && asked <= least;
    case Selector::largest:
      return true;
  }
  return false;
}

bool Groups::choose_rate(const Query& query, Group& group) const {
  u8 least = 0;
  for (const End end : view_.subnet.ends) {
    const Port& port = view_.subnet.port(end);
    if (view_.subnet.node(end).is_switch() || !port.linked()) continue;
    if (least == 0 || rate_mbps(port.rate) < rate_mbps(least)) least = port.rate;
  }
  group.rate = least;
  if (!query.has(has_rate) || !query.has(has_rate_selector)) return true;
  const auto asked = static_cast<u8>(query.get(rate));
  const u32 mbps = rate_mbps(asked);
  switch (selector(query, rate_selector)) {
    case Selector::greater:
      return rate_mbps(least) > mbps && mbps != 0;
    case Selector::less:
      if (rate_mbps(least) >= mbps) group.rate = slower_rate(asked);
      return mbps != 0 && group.rate != 0;
    case Selector::exactly:
      group.rate = asked;
      return mbps != 0 && mbps <= rate_mbps(least);
    case Selector::largest:
      return true;
  }
  return false;
}

// Whoever joins must be content with what the group is like, and able to.
SaStatus Groups::fits(const Query& query, End port, const Group& group) const {
  Query without_members = query;  // the port and its states are what it brings
  without_members.mask &= ~(bit(has_port_gid) | bit(has_join_state) | bit(has_proxy) | bit(has_mlid));
  const auto described = record(group);
  if (!matches(*find_layout(RecordType::multicast_member), query.data, without_members.mask & ~bit(has_pkey),
               described.bytes))
    return SaStatus::request_invalid;
  if (query.has(has_pkey) && ((query.get(pkey) ^ group.pkey) & default_key) != 0) return SaStatus::request_invalid;
  const Port& end = view_.subnet.port(port);
  if (!holds_pkey(end, group.pkey)) return SaStatus::request_invalid;
  const u64 able = end.get(port_info::mtu_cap);
  const bool slow = end.rate != 0 && rate_mbps(end.rate) < rate_mbps(group.rate);
  return (able != 0 && able < group.mtu) || slow ? SaStatus::request_invalid : SaStatus::ok;
}

GidBytes Groups::invent_mgid(const Query& query) const {
  GidBytes mgid{0xff, 0x10, 0xa0, 0x1b};
  constexpr u64 link_local = 2;
  mgid[1] = static_cast<u8>(0x10 | (query.has(has_scope) ? query.get(scope) : link_local));
  wire::set(mgid, {32, 64}, view_.options.subnet_prefix);
  for (u32 number = 1;; ++number) {
    wire::set(mgid, {96, 32}, number);
    if (!groups_.contains(mgid)) return mgid;
  }
}

u16 Groups::free_mlid() const {
  u32 capacity = 0x3fff;
  for (const u32 number : view_.subnet.switches) {
    const auto holds = static_cast<u32>(wire::get(view_.subnet.nodes[number].switch_info, switch_info::multicast_cap));
    if (holds != 0) capacity = std::min(capacity, holds);
  }
  std::set<u16> used;
  for (const auto& [mgid, group] : groups_) used.insert(group.mlid);
  for (u32 i = 0; i < capacity; ++i) {
    const auto candidate = static_cast<u16>(wire::first_multicast_lid + i);
    if (!used.contains(candidate)) return candidate;
  }
  return 0;
}

// -- leaving

Groups::Outcome Groups::leave(const Query& query) {
  Outcome outcome;
  const auto refuse = [&](SaStatus status) {
    outcome.status = status;
    return outcome;
  };
  if ((query.mask & join_components) != join_components) return refuse(SaStatus::insufficient_components);
  const auto at = groups_.find(query.gid(mgid_at));
  if (at == groups_.end()) return refuse(SaStatus::request_invalid);
  Group& group = at->second;
  const auto found = group.members.find(guid_of(query.gid(port_gid_at)));
  const auto states = static_cast<u8>(query.get(join_state));
  if (found == group.members.end() || states == 0 || (found->second.join_state & states) != states)
    return refuse(SaStatus::request_invalid);
  const u64 asker = query.from.node == nowhere ? 0 : view_.subnet.port(query.from).guid;
  const u64 may = found->second.proxy ? found->second.asker : found->first;
  if (asker != may && !query.trusted) return refuse(SaStatus::request_invalid);

  const auto left = static_cast<u8>(found->second.join_state & ~states);
  found->second.join_state = left;
  outcome.record = record(group, found->first, found->second);
  outcome.change.mlid = group.mlid;
  outcome.change.mgid = group.mgid;
  if (left != 0) return outcome;
  group.members.erase(found);
  outcome.change = drop_if_empty(at);
  return outcome;
}

// A group lives as long as it has a full member.
Groups::Change Groups::drop_if_empty(std::map<GidBytes, Group>::iterator at) {
  const Group& group = at->second;
  Change change{group.mlid, false, false, group.mgid};
  const bool lives = group.planned || std::any_of(group.members.begin(), group.members.end(), [](const auto& entry) {
                       return (entry.second.join_state & (full_join | send_only_full_join)) != 0;
                     });
  if (lives) return change;
  change.removed = true;
  groups_.erase(at);
  return change;
}

std::vector<Groups::Change> Groups::forget(const std::vector<u64>& ports) {
  std::vector<Change> changes;
  for (auto at = groups_.begin(); at != groups_.end();) {
    const auto group = at++;
    std::size_t gone = 0;
    for (const u64 port : ports) gone += group->second.members.erase(port);
    if (gone != 0) changes.push_back(drop_if_empty(group));
  }
  return changes;
}

// -- asking

Record<56> Groups::record(const Group& group) const {
  Record<56> record;
  record.put(mgid_at, group.mgid);
  record.set(qkey, group.qkey);
  record.set(mlid, group.mlid);
  record.set(mtu_selector, static_cast<u8>(Selector::exactly));
  record.set(mtu, group.mtu);
  record.set(traffic_class, group.traffic_class);
  record.set(pkey, group.pkey);
  record.set(rate_selector, static_cast<u8>(Selector::exactly));
  record.set(rate, group.rate);
  record.set(life_selector, static_cast<u8>(Selector::exactly));
  record.set(life, group.life);
  record.set(sl, group.sl);
  record.set(flow_label, group.flow_label);
  record.set(hop_limit, group.hop_limit);
  record.set(scope, group.mgid[1] & 15);
  return record;
}

Record<56> Groups::record(const Group& group, u64 port, const Member& member) const {
  Record<56> full = record(group);
  full.put(port_gid_at, make_gid(view_.options.subnet_prefix, port));
  full.set(join_state, member.join_state);
  full.set(proxy, member.proxy);
  return full;
}

// Without the manager's key only the groups are told, not who is in them.
void Groups::add_records(const Query& query, Answer& answer) const {
  const Layout& layout = *find_layout(RecordType::multicast_member);
  constexpr u64 of_member = bit(has_port_gid) | bit(has_join_state) | bit(has_proxy);
  for (const auto& [gid, group] : groups_) {
    const bool told =
        query.from.node != nowhere && (query.trusted || holds_pkey(view_.subnet.port(query.from), group.pkey));
    if (!told) continue;
    if (query.trusted) {
      for (const auto& [port, member] : group.members) answer.add(record(group, port, member).bytes);
      continue;
    }
    const auto described = record(group);
    if (matches(layout, query.data, query.mask & ~of_member, described.bytes)) answer.add_anyway(described.bytes);
  }
}

bool Groups::add_path(const Query& query, Answer& answer) const {
  const auto at = groups_.find(query.gid(path::dgid_at));
  if (at == groups_.end()) return false;
  const Group& group = at->second;
  Record<64> record;
  record.put(path::dgid_at, group.mgid);
  End source = query.from;
  if (query.has(path::has_sgid)) {
    const auto end = end_of_gid(view_, query.gid(path::sgid_at));
    if (!end) return false;
    source = *end;
  }
  if (source.node == nowhere) return false;
  record.put(path::sgid_at, make_gid(view_.options.subnet_prefix, view_.subnet.port(source).guid));
  record.set(path::dlid, group.mlid);
  record.set(path::slid, view_.subnet.port(source).lid);
  record.set(path::flow_label, group.flow_label);
  record.set(path::hop_limit, group.hop_limit);
  record.set(path::traffic_class, group.traffic_class);
  record.set(path::pkey, group.pkey);
  record.set(path::sl, group.sl);
  record.set(path::mtu_selector, static_cast<u8>(Selector::exactly));
  record.set(path::mtu, group.mtu);
  record.set(path::rate_selector, static_cast<u8>(Selector::exactly));
  record.set(path::rate, group.rate);
  record.set(path::life_selector, static_cast<u8>(Selector::exactly));
  record.set(path::life, group.life);
  answer.add(record.bytes);
  return true;
}

std::vector<Administration::Group> Groups::list() const {
  std::vector<Administration::Group> list;
  for (const auto& [gid, group] : groups_) {
    Administration::Group one{group.mlid, {}, {}};
    for (const auto& [port, member] : group.members) {
      const bool receives = (member.join_state & (full_join | non_member_join)) != 0;
      if (const auto end = view_.subnet.end_of_guid(port)) (receives ? one.members : one.senders).push_back(*end);
    }
    list.push_back(std::move(one));
  }
  return list;
}

u32 Groups::highest_mlids() const {
  u32 highest = 0;
  for (const auto& [gid, group] : groups_)
    highest = std::max<u32>(highest, group.mlid - wire::first_multicast_lid + 1U);
  return highest;
}

}  // namespace softib::sm::sa
