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

u64 id_of(std::span<const u8> record) { return wire::get(record, service::id); }

}  // namespace

// A service is known by its id, port and P_Key.
std::list<Services::Service>::iterator Services::find(const Query& query) {
  return std::find_if(services_.begin(), services_.end(), [&](const Service& one) {
    const auto& bytes = one.record.bytes;
    return id_of(bytes) == query.get(service::id) &&
           std::equal(bytes.begin() + service::gid_at, bytes.begin() + service::gid_at + 16,
                      query.data.begin() + service::gid_at) &&
           (!query.has(service::has_pkey) || wire::get(bytes, service::pkey) == query.get(service::pkey));
  });
}

SaStatus Services::set(const Query& query, u64 now, Record<176>& record) {
  if ((query.mask & needed) != needed) return SaStatus::insufficient_components;
  // By its GUID alone: osmtest gives a GID whose prefix has its bytes in the wrong order, and opensm takes it.
  const auto port = view_.subnet.end_of_guid(guid_of(query.gid(service::gid_at)));
  if (!port) return SaStatus::invalid_gid;
  if (!visible(view_, query, *port)) return SaStatus::request_invalid;
  if (query.has(service::has_pkey) && !holds_pkey(view_.subnet.port(*port), static_cast<u16>(query.get(service::pkey))))
    return SaStatus::request_invalid;
  auto at = find(query);
  if (at == services_.end() && services_.size() >= most) return SaStatus::no_resources;
  if (at == services_.end()) at = services_.emplace(services_.end());
  const u64 lease = query.has(service::has_lease) ? query.get(service::lease) : for_ever;
  at->record.put(0, query.data);
  at->record.set(service::lease, lease);
  at->owner = view_.subnet.port(*port).guid;
  at->ends = lease == for_ever ? ~u64{0} : now + lease * ns::second;
  record = at->record;
  hide_key(query, record);
  return SaStatus::ok;
}

SaStatus Services::remove(const Query& query, Record<176>& record) {
  if (query.mask == 0) return SaStatus::insufficient_components;
  // Some name the service by other components and fill in its id and port without saying so in the mask.
  const auto at = find(query);
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
    if (!owner || !visible(view_, query, *owner)) continue;
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

void Services::forget(const std::vector<u64>& ports) {
  services_.remove_if(
      [&](const Service& one) { return std::find(ports.begin(), ports.end(), one.owner) != ports.end(); });
}

}  // namespace softib::sm::sa
