#include "sm/sa/services.h"

#include <algorithm>

#include "base/durations.h"

namespace softib::sm::sa {

namespace {

constexpr u64 for_ever = 0xffff'ffff;  // a lease
constexpr wire::Field key_high{256, 64}, key_low{320, 64};
constexpr u64 needed = bit(service::has_id) | bit(service::has_gid);

// The service key is shown to who has the manager's key alone.
void hide_key(const Query& query, Record<176>& record) {
  if (query.trusted) return;
  record.set(key_high, 0);
  record.set(key_low, 0);
}

// What names a service: its id, GID and P_Key, which lie side by side.
constexpr std::size_t name_bytes = 26;

// A service of no partition is everybody's, as with opensm.
bool is_in_partition(const View& view, End end, u16 pkey) {
  return (pkey & default_key) == 0 || holds_pkey(view.subnet.port(end), pkey);
}

}  // namespace

// Who names no P_Key means the default partition. osmtest takes services back with the P_Key in the record and not in
// the mask.
Record<176> Services::named(const Query& query) {
  Record<176> record;
  record.put(0, query.data);
  const bool by_field = query.method == wire::Method::remove && query.get(service::pkey) != 0;
  if (!query.has(service::has_pkey) && !by_field) record.set(service::pkey, full_member | default_key);
  return record;
}

std::list<Services::Service>::iterator Services::find(const Record<176>& named) {
  return std::find_if(services_.begin(), services_.end(), [&](const Service& one) {
    return std::equal(named.bytes.begin(), named.bytes.begin() + name_bytes, one.record.bytes.begin());
  });
}

SaStatus Services::set(const Query& query, u64 now, Record<176>& record) {
  // The specification has more telling codes for these two; opensm says this.
  if ((query.mask & needed) != needed) return SaStatus::request_invalid;
  // By its GUID alone: osmtest gives a GID whose prefix has its bytes in the wrong order, and opensm takes it.
  const auto port = view_.subnet.end_of_guid(guid_of(query.gid(service::gid_at)));
  if (!port) return SaStatus::request_invalid;
  if (!visible(view_, query, *port)) return SaStatus::request_invalid;
  Record<176> service = named(query);
  const auto pkey = static_cast<u16>(query.get(service::pkey));
  if (query.has(service::has_pkey) &&
      (!is_in_partition(view_, query.from, pkey) || !is_in_partition(view_, *port, pkey)))
    return SaStatus::request_invalid;
  auto at = find(service);
  if (at == services_.end() && services_.size() >= most) return SaStatus::no_resources;
  if (at == services_.end()) at = services_.emplace(services_.end());
  const u64 lease = query.has(service::has_lease) ? query.get(service::lease) : for_ever;
  service.set(service::lease, lease);
  at->record = service;
  at->owner = view_.subnet.port(*port).guid;
  at->ends = lease == for_ever ? ~u64{0} : now + lease * ns::second;
  record = at->record;
  hide_key(query, record);
  return SaStatus::ok;
}

SaStatus Services::remove(const Query& query, Record<176>& record) {
  if (query.mask == 0) return SaStatus::insufficient_components;
  const auto pkey = static_cast<u16>(query.get(service::pkey));
  if (query.from.node == nowhere || (query.has(service::has_pkey) && !is_in_partition(view_, query.from, pkey)))
    return SaStatus::request_invalid;
  // Some name the service by other components and fill in its id and port without saying so in the mask.
  const auto at = find(named(query));
  const Layout& layout = *find_layout(RecordType::service);
  if (at == services_.end() || !matches(layout, query.data, query.mask, at->record.bytes)) return SaStatus::no_records;
  record = at->record;
  hide_key(query, record);
  services_.erase(at);
  return SaStatus::ok;
}

void Services::add_records(const Query& query, Answer& answer, u64 now) const {
  for (const Service& one : services_) {
    const auto owner = view_.subnet.end_of_guid(one.owner);
    const auto pkey = static_cast<u16>(wire::get(one.record.bytes, service::pkey));
    if (!owner || !visible(view_, query, *owner) || !is_in_partition(view_, query.from, pkey)) continue;
    Record<176> record = one.record;
    if (one.ends != ~u64{0}) record.set(service::lease, one.ends > now ? (one.ends - now) / ns::second : 0);
    const u32 before = answer.count;
    answer.add(record.bytes);  // a question may name the key
    if (answer.count == before) continue;
    hide_key(query, record);
    answer.replace_last(record.bytes);
  }
}

u64 Services::on_time(u64 now) {
  services_.remove_if([now](const Service& one) { return one.ends <= now; });
  u64 next = ~u64{0};
  for (const Service& one : services_) next = std::min(next, one.ends);
  return next;
}

}  // namespace softib::sm::sa
