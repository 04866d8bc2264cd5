#include "ipoib/sa_records.h"

#include <algorithm>

#include "wire/sa_records.h"

namespace softib::ipoib {

namespace {

using wire::Field;
using wire::get;
using wire::set;

using wire::RecordType;
using wire::sa::bit;
namespace path = wire::path_record;
namespace member = wire::member_record;

constexpr u16 first_multicast_lid = 0xc000;

constexpr u64 path_asked =
    bit(path::has_dgid) | bit(path::has_sgid) | bit(path::has_reversible) | bit(path::has_count) | bit(path::has_pkey);
constexpr u64 member_joined = bit(member::has_mgid) | bit(member::has_port_gid) | bit(member::has_join_state);
constexpr u64 member_made = bit(member::has_qkey) | bit(member::has_mtu_selector) | bit(member::has_mtu) |
                            bit(member::has_class) | bit(member::has_rate_selector) | bit(member::has_rate) |
                            bit(member::has_sl) | bit(member::has_flow) | bit(member::has_hop);
constexpr u64 exactly = static_cast<u64>(wire::Selector::exactly);

GidBytes gid_at(std::span<const u8> record, u32 at) {
  GidBytes gid;
  std::copy_n(record.begin() + at, gid.size(), gid.begin());
  return gid;
}

u64 code_of_mtu(u32 bytes) {
  u64 code = 1;
  while (code < 5 && (128U << code) < bytes) ++code;
  return code;
}

Bytes membership_record(const Membership& membership) {
  Bytes record(member::size);
  std::copy(membership.mgid.begin(), membership.mgid.end(), record.begin() + member::mgid_at);
  std::copy(membership.port.begin(), membership.port.end(), record.begin() + member::port_gid_at);
  set(record, member::pkey, membership.pkey);
  set(record, member::join_state, static_cast<u8>(membership.state));
  return record;
}

void put_facts(std::span<u8> record, const GroupFacts& facts) {
  set(record, member::qkey, facts.qkey);
  set(record, member::mtu_selector, exactly);
  set(record, member::mtu, code_of_mtu(facts.mtu));
  set(record, member::traffic_class, facts.route.traffic_class);
  set(record, member::rate_selector, exactly);
  set(record, member::rate, facts.route.rate);
  set(record, member::sl, facts.route.sl);
  set(record, member::flow_label, facts.route.flow_label);
  set(record, member::hop_limit, facts.route.hop_limit);
}

}  // namespace

u32 bytes_of_mtu(u64 code) { return code >= 1 && code <= 5 ? 128U << code : 0; }

Result<PathAnswer> parse_path(std::span<const u8> record) {
  if (record.size() < path::size) return fail(EPROTO);
  PathAnswer answer;
  answer.route.lid = static_cast<u16>(get(record, path::dlid));
  answer.route.sl = static_cast<u8>(get(record, path::sl));
  answer.route.rate = static_cast<u8>(get(record, path::rate));
  answer.mtu = bytes_of_mtu(get(record, path::mtu));
  const bool good = answer.route.lid != 0 && answer.route.lid < first_multicast_lid && answer.mtu != 0;
  return good ? Result<PathAnswer>(answer) : fail(EPROTO);
}

void ask_path(SaClient& client, const GidBytes& from, const GidBytes& to, u16 pkey,
              std::function<void(Result<PathAnswer>)> answer) {
  Bytes record(path::size);
  std::copy(to.begin(), to.end(), record.begin() + path::dgid_at);
  std::copy(from.begin(), from.end(), record.begin() + path::sgid_at);
  set(record, path::reversible, 1);
  set(record, path::count, 1);
  set(record, path::pkey, pkey);
  client.ask({wire::Method::get, static_cast<u16>(RecordType::path), path_asked, record},
             [answer = std::move(answer)](Result<std::span<const u8>> got) {
               answer(got ? parse_path(*got) : Result<PathAnswer>(fail(got.error())));
             });
}

Result<GroupFacts> parse_membership(std::span<const u8> record) {
  if (record.size() < member::size) return fail(EPROTO);
  GroupFacts facts;
  facts.route.lid = static_cast<u16>(get(record, member::mlid));
  facts.route.sl = static_cast<u8>(get(record, member::sl));
  facts.route.rate = static_cast<u8>(get(record, member::rate));
  facts.route.is_group = true;
  facts.route.gid = gid_at(record, member::mgid_at);
  facts.route.flow_label = static_cast<u32>(get(record, member::flow_label));
  facts.route.hop_limit = static_cast<u8>(get(record, member::hop_limit));
  facts.route.traffic_class = static_cast<u8>(get(record, member::traffic_class));
  facts.qkey = static_cast<u32>(get(record, member::qkey));
  facts.mtu = bytes_of_mtu(get(record, member::mtu));
  const bool good = facts.route.lid >= first_multicast_lid && facts.route.lid != wire::permissive_lid && facts.mtu != 0;
  return good ? Result<GroupFacts>(facts) : fail(EPROTO);
}

void ask_join(SaClient& client, const Membership& membership, const GroupFacts* creation,
              std::function<void(Result<GroupFacts>)> answer) {
  Bytes record = membership_record(membership);
  u64 mask = member_joined | bit(member::has_pkey);
  if (creation) {
    put_facts(record, *creation);
    mask |= member_made;
  }
  client.ask({wire::Method::set, static_cast<u16>(RecordType::multicast_member), mask, record},
             [answer = std::move(answer)](Result<std::span<const u8>> got) {
               answer(got ? parse_membership(*got) : Result<GroupFacts>(fail(got.error())));
             });
}

void ask_leave(SaClient& client, const Membership& membership) {
  const Bytes record = membership_record(membership);
  client.ask({wire::Method::remove, static_cast<u16>(RecordType::multicast_member), member_joined, record},
             [](Result<std::span<const u8>>) {});
}

}  // namespace softib::ipoib
