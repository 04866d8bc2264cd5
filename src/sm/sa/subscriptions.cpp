#include "sm/sa/subscriptions.h"

#include <algorithm>

#include "base/durations.h"

namespace softib::sm::sa {

namespace {

constexpr u32 any_lid = 0xffff;
constexpr u64 any_value = 0xffff;
constexpr u64 any_producer = 0xff'ffff;
constexpr u64 report_timeout_ns = ns::second;
constexpr u32 report_tries = 3;

// Traps 64 to 67 are about a GID; the others about their issuer.
bool is_about_gid(u64 trap) { return trap >= 64 && trap <= 67; }

}  // namespace

SaStatus Subscriptions::set(const Query& query) {
  if (query.from.node == nowhere) return SaStatus::request_invalid;
  const bool wanted = query.get(inform::subscribe) != 0;
  const GidBytes gid = query.gid(inform::gid_at);
  const bool by_gid = gid != GidBytes{};
  if (by_gid && !end_of_gid(view_, gid)) return SaStatus::request_invalid;
  if (!by_gid && wanted && query.get(inform::first_lid) != any_lid &&
      query.get(inform::first_lid) >= view_.subnet.by_lid.size())
    return SaStatus::request_invalid;

  Subscription one;
  one.info.put(0, std::span(query.data).first(inform::size));
  one.lid = query.packet.slid;
  one.port = view_.subnet.port(query.from).guid;
  // Reports go to the queue pair that asked; the field in the request is for taking a subscription back.
  one.qp = query.packet.source_qp;
  const auto same = [&](const Subscription& other) {
    Record<36> a = one.info, b = other.info;
    for (auto* record : {&a, &b})
      for (const auto field : {inform::subscribe, inform::qpn, inform::response_time}) record->set(field, 0);
    return a.bytes == b.bytes && other.port == one.port;
  };
  const auto at = std::find_if(subscriptions_.begin(), subscriptions_.end(), same);
  if (!wanted) {
    if (at == subscriptions_.end()) return SaStatus::request_invalid;
    subscriptions_.erase(at);
    return SaStatus::ok;
  }
  if (at != subscriptions_.end()) {
    one.number = at->number;
    *at = one;
    return SaStatus::ok;
  }
  if (subscriptions_.size() >= most) return SaStatus::no_resources;
  one.number = next_number_++;
  subscriptions_.push_back(one);
  return SaStatus::ok;
}

void Subscriptions::add_records(const Query& query, Answer& answer) const {
  for (const Subscription& one : subscriptions_) {
    const auto port = view_.subnet.end_of_guid(one.port);
    if (!port || !visible(view_, query, *port)) continue;
    Record<64> record;
    record.put(0, make_gid(view_.options.subnet_prefix, one.port));
    record.set({128, 16}, one.number);
    record.put(inform::in_record_at, one.info.bytes);
    record.set(inform::qpn.shifted(inform::in_record_at * 8), query.trusted ? one.qp : 0);
    answer.add(record.bytes);
  }
}

bool Subscriptions::wants(const Subscription& subscription, std::span<const u8> notice) const {
  const auto& info = subscription.info.bytes;
  const bool generic = wire::get(notice, wire::notice::is_generic) != 0;
  if (generic != (wire::get(info, inform::generic) != 0)) return false;
  const u64 type = wire::get(info, inform::type), trap = wire::get(info, inform::trap);
  const u64 producer = wire::get(info, inform::producer);
  const u64 number = wire::get(notice, wire::notice::trap_number);
  if (type != any_value && type != wire::get(notice, wire::notice::type)) return false;
  if (trap != any_value && trap != number) return false;
  if (producer != any_producer && producer != wire::get(notice, wire::notice::producer)) return false;

  // Whom it is about, or from.
  const u64 issuer = wire::get(notice, wire::notice::issuer_lid);
  const auto subscriber = view_.subnet.end_of_guid(subscription.port);
  if (!subscriber) return false;
  std::optional<End> about = view_.subnet.end_of_lid(static_cast<u32>(issuer));
  GidBytes gid{};
  if (generic && is_about_gid(number)) {
    std::copy_n(notice.begin() + wire::notice::gid_at, 16, gid.begin());
    about = number <= 65 ? view_.subnet.end_of_guid(guid_of(gid)) : std::nullopt;
  }
  GidBytes asked{};
  std::copy_n(info.begin(), 16, asked.begin());
  if (asked != GidBytes{}) return about && guid_of(asked) == view_.subnet.port(*about).guid;
  const u64 first = wire::get(info, inform::first_lid);
  if (first == any_lid) return true;
  const u64 last = std::max(first, wire::get(info, inform::last_lid));
  return issuer >= first && issuer <= last;
}

void Subscriptions::event(std::span<const u8> notice, u64 now) {
  std::vector<const Subscription*> chosen;
  for (const Subscription& one : subscriptions_)
    if (wants(one, notice)) chosen.push_back(&one);
  for (const Subscription* one : chosen) {
    Report report;
    wire::Packet& packet = report.packet;
    packet.slid = view_.subnet.own_lid();
    packet.dlid = one->lid;
    packet.source_qp = 1;
    packet.destination_qp = one->qp;
    packet.qkey = wire::gsi_qkey;
    wire::set(packet.mad, wire::header::base_version, 1);
    wire::set(packet.mad, wire::header::mgmt_class, static_cast<u8>(wire::MgmtClass::subn_adm));
    wire::set(packet.mad, wire::header::class_version, 2);
    wire::set(packet.mad, wire::header::method, static_cast<u8>(wire::Method::report));
    wire::set(packet.mad, wire::header::transaction, u64{transaction_tag} << 32 | ++next_transaction_);
    wire::set(packet.mad, wire::header::attribute, static_cast<u16>(RecordType::notice));
    std::copy_n(notice.begin(), std::min<std::size_t>(notice.size(), wire::sa::data_size),
                packet.mad.begin() + wire::sa::data_at);
    reports_.push_back(report);
    transmit(reports_.back(), now);
  }
}

void Subscriptions::transmit(Report& report, u64 now) {
  ++report.tries;
  report.deadline = now + report_timeout_ns;
  view_.mouth.send(report.packet);
}

void Subscriptions::report_answered(const wire::Mad& mad) {
  const u64 transaction = wire::get(mad, wire::header::transaction);
  reports_.remove_if([transaction](const Report& report) {
    return wire::get(report.packet.mad, wire::header::transaction) == transaction;
  });
}

u64 Subscriptions::on_time(u64 now) {
  reports_.remove_if([now](const Report& report) { return report.deadline <= now && report.tries >= report_tries; });
  u64 next = ~u64{0};
  for (Report& report : reports_) {
    if (report.deadline <= now) transmit(report, now);
    next = std::min(next, report.deadline);
  }
  return next;
}

void Subscriptions::forget(const std::vector<u64>& ports) {
  subscriptions_.remove_if(
      [&](const Subscription& one) { return std::find(ports.begin(), ports.end(), one.port) != ports.end(); });
}

}  // namespace softib::sm::sa
