#include "sm/sa/administrator.h"

#include <algorithm>
#include <memory>

#include "wire/class_port_info.h"
#include "wire/pkey.h"

namespace softib::sm {

std::unique_ptr<Administration> Administration::create(const View& view, Replant replant) {
  return std::make_unique<sa::Administrator>(view, std::move(replant));
}

}  // namespace softib::sm

namespace softib::sm::sa {

using wire::Mad;
using wire::Method;

namespace {

constexpr u8 class_version = 2;
constexpr std::size_t most_answer = 1U << 30;
constexpr std::size_t most_fetched = 1U << 20;
constexpr std::size_t most_partners = 1U << 16;

using Producer = void (*)(const View&, const Query&, Answer&);
constexpr std::pair<RecordType, Producer> from_the_model[] = {{RecordType::node, add_nodes},
                                                              {RecordType::port_info, add_port_infos},
                                                              {RecordType::switch_info, add_switch_infos},
                                                              {RecordType::link, add_links},
                                                              {RecordType::linear_forwarding, add_linear},
                                                              {RecordType::multicast_forwarding, add_multicast},
                                                              {RecordType::sm_info, add_managers},
                                                              {RecordType::trace, add_trace}};

u16 status_code(wire::MadStatus status) { return static_cast<u16>(status); }

// Responses to a long question go by RMPP even when they are short.
bool is_long(Method method) {
  return method == Method::get_table || method == Method::get_multi || method == Method::get_trace_table;
}

Method response_to(Method method) {
  if (method == Method::set) return Method::get_resp;
  if (method == Method::get_trace_table) return Method::get_table_resp;
  return static_cast<Method>(static_cast<u8>(method) | wire::response_bit);
}

}  // namespace

Administrator::Administrator(const View& view, Replant replant)
    : view_(view),
      replant_(std::move(replant)),
      groups_(view_),
      services_(view_),
      subscriptions_(view_),
      exchange_(*this) {
  groups_.plan(view_.partitions.groups);
}

// -- what comes in

void Administrator::received(const wire::Packet& packet, u64 now) {
  now_ = now;
  const Mad& mad = packet.mad;
  if (wire::method_of(mad) == Method::report_resp) return subscriptions_.report_answered(mad);
  if (!wire::rmpp::is_active(mad)) {
    if (!wire::is_response(mad)) take(packet, {mad.begin() + wire::sa::data_at, mad.end()});
    return;
  }
  const wire::rmpp::Peer peer{packet.slid, packet.source_qp, wire::get(mad, wire::header::transaction)};
  if (!wire::is_response(mad) && wire::rmpp::type_of(mad) == wire::rmpp::Type::data) {
    if (partners_.size() >= most_partners) partners_.clear();
    partners_[peer] = packet;
  }
  exchange_.received(peer, mad, now);
}

void Administrator::arrived(const wire::rmpp::Peer& peer, wire::rmpp::Message message) {
  const auto at = partners_.find(peer);
  if (at == partners_.end()) return;
  wire::Packet packet = at->second;
  packet.mad = message.head;
  message.data.resize(std::max<std::size_t>(message.data.size(), wire::sa::data_size));
  take(packet, std::move(message.data));
}

void Administrator::transmit(const wire::rmpp::Peer& peer, const Mad& mad) {
  const auto at = partners_.find(peer);
  Query query;
  if (at != partners_.end()) query.packet = at->second;
  query.packet.slid = peer.lid;
  query.packet.source_qp = peer.qp;
  send(query, mad);
}

void Administrator::take(const wire::Packet& packet, std::vector<u8> data) {
  Query query;
  query.packet = packet;
  query.data = std::move(data);
  query.mask = wire::get(packet.mad, wire::sa::component_mask);
  query.modifier = static_cast<u32>(wire::get(packet.mad, wire::header::modifier));
  query.method = wire::method_of(packet.mad);
  query.type = static_cast<RecordType>(wire::attribute_of(packet.mad));
  const u64 key = wire::get(packet.mad, wire::sa::sm_key);
  if (key != 0 && key != sm_key) return;  // a wrong key gets no answer
  query.trusted = key == sm_key;
  query.from = view_.subnet.end_of_lid(packet.slid).value_or(End{});
  if (wire::get(packet.mad, wire::header::class_version) != class_version)
    return refuse(query, status_code(wire::MadStatus::bad_version));
  dispatch(query);
}

void Administrator::dispatch(const Query& query) {
  switch (query.method) {
    case Method::get:
    case Method::get_table:
    case Method::get_multi:
    case Method::get_trace_table:
      return ask(query);
    case Method::set:
    case Method::remove:
      return change(query);
    case Method::report:
      return;
    default:
      return refuse(query, status_code(wire::MadStatus::bad_method));
  }
}

// -- questions

void Administrator::ask(const Query& query) {
  const bool get = query.method == Method::get;
  if (query.type == RecordType::class_port_info && get) return class_port_info(query);
  const bool multi = query.method == Method::get_multi, trace = query.method == Method::get_trace_table;
  const bool goes_together = multi == (query.type == RecordType::multi_path) &&
                             trace == (query.type == RecordType::trace) && query.type != RecordType::inform_info;
  const RecordType kind = multi ? RecordType::path : query.type;
  const Layout* layout = find_layout(kind);
  if (!layout || !goes_together) return refuse(query, status_code(wire::MadStatus::bad_attribute));
  switch (query.type) {
    case RecordType::sl_to_vl:
    case RecordType::vl_arbitration:
    case RecordType::pkey_table:
    case RecordType::guid_info:
      return fetch(query, *layout);
    default:
      break;
  }
  Answer answer(*layout, query);
  const SaStatus status = collect(query, answer);
  if (status != SaStatus::ok) return refuse(query, status);
  respond(query, std::move(answer));
}

SaStatus Administrator::collect(const Query& query, Answer& answer) {
  for (const auto& [type, add] : from_the_model) {
    if (type != query.type) continue;
    add(view_, query, answer);
    return SaStatus::ok;
  }
  switch (query.type) {
    case RecordType::service:
      services_.add_records(query, answer, now_);
      return SaStatus::ok;
    case RecordType::inform_info_record:
      subscriptions_.add_records(query, answer);
      return SaStatus::ok;
    case RecordType::multicast_member:
      groups_.add_records(query, answer);
      return SaStatus::ok;
    case RecordType::multi_path:
      return add_multi_paths(view_, query, answer);
    default:
      break;
  }
  const bool to_group = query.has(path::has_dgid) && query.gid(path::dgid_at)[0] == 0xff;
  if (!to_group) return add_paths(view_, query, answer);
  return groups_.add_path(query, answer) ? SaStatus::ok : SaStatus::invalid_gid;
}

struct Administrator::Fetch {
  Query query;
  std::vector<Wanted> list;
  std::vector<bool> have;
  std::size_t left = 0;
};

// Tables that only the nodes have. The answer goes when the last of them has told.
void Administrator::fetch(const Query& query, const Layout& layout) {
  // Which P_Keys others have is not for everybody to know.
  if (query.type == RecordType::pkey_table && !query.trusted) return refuse(query, SaStatus::request_invalid);
  auto work = std::make_shared<Fetch>();
  work->query = query;
  Answer none(layout, work->query);
  work->list = wanted_tables(view_, work->query, none);
  for (const Wanted& wanted : work->list) work->have.push_back(wanted.is_empty);
  work->left = static_cast<std::size_t>(std::count(work->have.begin(), work->have.end(), false));
  if (work->left > most_fetched) return refuse(query, SaStatus::no_resources);
  if (work->left == 0) return fetched(*work, layout);
  for (std::size_t i = 0; i < work->list.size(); ++i) {
    const Wanted& wanted = work->list[i];
    if (wanted.is_empty) continue;
    view_.requests.get(view_.subnet.path(wanted.end), wanted.attribute, wanted.modifier,
                       [this, work, i, &layout](const Mad* mad) {
                         Wanted& one = work->list[i];
                         if (mad) one.record.put(one.data_at, data_of(*mad).first(one.size));
                         work->have[i] = mad != nullptr;
                         if (--work->left == 0) fetched(*work, layout);
                       });
  }
}

void Administrator::fetched(const Fetch& work, const Layout& layout) {
  Answer answer(layout, work.query);
  for (std::size_t i = 0; i < work.list.size(); ++i)
    if (work.have[i]) answer.add(work.list[i].record.bytes);
  respond(work.query, std::move(answer));
}

void Administrator::class_port_info(const Query& query) {
  namespace info = wire::class_port_info;
  constexpr u16 multicast = 1 << 9, optional_records = 1 << 8, multipath = 1 << 10, capability_match = 1 << 13;
  constexpr u32 multicast_top = 1 << 3, full_port_info = 1 << 6, extended_speeds = 1 << 7, capability_match2 = 1 << 10,
                send_only_full_member = 1 << 12, width_2x = 1 << 13, speed_hdr = 1 << 15, speed_ndr = 1 << 17;
  constexpr u8 response_time = 18;  // about a second
  Record<72> record;
  record.set(info::base_version, 1);
  record.set(info::class_version, class_version);
  record.set(info::capability_mask, multicast | optional_records | multipath | capability_match);
  record.set(info::capability_mask2, multicast_top | full_port_info | extended_speeds | capability_match2 |
                                         send_only_full_member | width_2x | speed_hdr | speed_ndr);
  record.set(info::response_time, response_time);
  record.set(info::redirect_qp, 1);
  record.set(info::redirect_qkey, wire::gsi_qkey);
  record.set(info::trap_qkey, wire::gsi_qkey);
  respond_one(query, record.bytes, 0);
}

// -- changes

void Administrator::change(const Query& query) {
  const bool set = query.method == Method::set;
  if (query.type == RecordType::multicast_member) return change_group(query);
  if (query.type == RecordType::service) {
    Record<176> record;
    const SaStatus status = set ? services_.set(query, now_, record) : services_.remove(query, record);
    return status == SaStatus::ok ? respond_one(query, record.bytes, service::size) : refuse(query, status);
  }
  if (query.type == RecordType::inform_info && set) {
    const SaStatus status = subscriptions_.set(query);
    const auto echo = std::span(query.data).first(inform::size);
    return status == SaStatus::ok ? respond_one(query, echo, 0) : refuse(query, status);
  }
  refuse(query, status_code(wire::MadStatus::bad_attribute));
}

void Administrator::change_group(const Query& query) {
  const Groups::Outcome outcome = query.method == Method::set ? groups_.join(query) : groups_.leave(query);
  if (outcome.status != SaStatus::ok) return refuse(query, outcome.status);
  // The switches first: whoever gets the answer may send at once.
  if (outcome.change.mlid != 0) replant_(outcome.change.mlid);
  respond_one(query, outcome.record.bytes, 56);
  changed(outcome.change);
}

void Administrator::changed(const Groups::Change& change) {
  if (change.created) announce(wire::TrapNumber::group_created, change.mgid);
  if (change.removed) announce(wire::TrapNumber::group_deleted, change.mgid);
}

// -- answers

Mad Administrator::head(const Query& query, u16 status, u32 record_size) const {
  Mad mad{};
  std::copy_n(query.packet.mad.begin(), wire::sa::data_at, mad.begin());
  std::fill(mad.begin() + 24, mad.begin() + wire::rmpp::end_of_header, u8{0});
  wire::set(mad, wire::header::method, static_cast<u8>(response_to(query.method)));
  wire::set(mad, wire::header::status, status);
  wire::set(mad, wire::sa::sm_key, 0);
  wire::set(mad, wire::sa::attribute_offset, record_size / 8);
  return mad;
}

void Administrator::respond(const Query& query, Answer answer) {
  const u32 size = find_layout(query.method == Method::get_multi ? RecordType::path : query.type)->size;
  if (query.method == Method::get) {
    if (answer.count == 0) return refuse(query, SaStatus::no_records);
    if (answer.count > 1) return refuse(query, SaStatus::too_many_records);
    return respond_one(query, answer.bytes, size);
  }
  if (answer.bytes.size() > most_answer) return refuse(query, SaStatus::no_resources);
  const wire::rmpp::Peer peer{query.packet.slid, query.packet.source_qp,
                              wire::get(query.packet.mad, wire::header::transaction)};
  if (partners_.size() >= most_partners) partners_.clear();
  partners_[peer] = query.packet;
  exchange_.send(peer, {head(query, 0, size), std::move(answer.bytes)}, now_);
}

void Administrator::respond_one(const Query& query, std::span<const u8> record, u32 size) {
  Mad mad = head(query, 0, size);
  std::copy_n(record.begin(), std::min<std::size_t>(record.size(), wire::sa::data_size),
              mad.begin() + wire::sa::data_at);
  send(query, mad);
}

void Administrator::refuse(const Query& query, u16 status) {
  Mad mad = head(query, status, 0);
  if (is_long(query.method)) {
    // A refusal is a single segment without records.
    wire::set(mad, wire::rmpp::header::version, 1);
    wire::set(mad, wire::rmpp::header::type, static_cast<u8>(wire::rmpp::Type::data));
    wire::set(mad, wire::rmpp::header::flags, wire::rmpp::flag_active | wire::rmpp::flag_first | wire::rmpp::flag_last);
    wire::set(mad, wire::rmpp::header::segment, 1);
    wire::set(mad, wire::rmpp::header::length, wire::sa::data_at - wire::rmpp::end_of_header);
  }
  send(query, mad);
}

void Administrator::send(const Query& query, const Mad& mad) {
  const wire::Packet& asked = query.packet;
  wire::Packet packet;
  packet.slid = asked.dlid != 0 ? asked.dlid : view_.subnet.own_lid();
  packet.dlid = asked.slid;
  packet.sl = asked.sl;
  packet.pkey = wire::key_to_answer_with(view_.subnet.port(view_.subnet.own).pkeys, asked.pkey);
  packet.source_qp = 1;
  packet.destination_qp = asked.source_qp;
  packet.qkey = wire::gsi_qkey;
  if (asked.global) {
    packet.global = asked.global;
    std::swap(packet.global->source, packet.global->destination);
    packet.global->hop_limit = 0xff;
  }
  packet.mad = mad;
  view_.mouth.send(packet);
}

// -- events

u64 Administrator::on_time(u64 now) {
  now_ = now;
  const u64 exchange = exchange_.on_time(now);
  return std::min({exchange, services_.on_time(now), subscriptions_.on_time(now)});
}

void Administrator::subnet_changed(const std::vector<u64>& came, const std::vector<u64>& left, u64 now) {
  now_ = now;
  for (const auto& change : groups_.forget(left)) {
    replant_(change.mlid);
    changed(change);
  }
  subscriptions_.forget(left);
  for (const u64 guid : came) announce(wire::TrapNumber::gid_in_service, make_gid(view_.options.subnet_prefix, guid));
  for (const u64 guid : left)
    announce(wire::TrapNumber::gid_out_of_service, make_gid(view_.options.subnet_prefix, guid));
}

void Administrator::event(std::span<const u8> notice, u64 now) {
  now_ = now;
  Record<80> full;
  full.put(0, notice.first(std::min<std::size_t>(notice.size(), 64)));
  const auto issuer = view_.subnet.end_of_lid(static_cast<u32>(wire::get(notice, wire::notice::issuer_lid)));
  if (issuer) full.put(64, make_gid(view_.options.subnet_prefix, view_.subnet.port(*issuer).guid));
  subscriptions_.event(full.bytes, now);
}

void Administrator::announce(wire::TrapNumber number, const GidBytes& gid) {
  constexpr u32 class_manager = 4;
  Record<80> notice;
  notice.set(wire::notice::is_generic, 1);
  notice.set(wire::notice::type, static_cast<u8>(wire::NoticeType::subnet_management));
  notice.set(wire::notice::producer, class_manager);
  notice.set(wire::notice::trap_number, static_cast<u16>(number));
  notice.set(wire::notice::issuer_lid, view_.subnet.own_lid());
  notice.put(wire::notice::gid_at, gid);
  notice.put(64, make_gid(view_.options.subnet_prefix, view_.subnet.port(view_.subnet.own).guid));
  subscriptions_.event(notice.bytes, now_);
}

}  // namespace softib::sm::sa
