#include <algorithm>

#include "sm/sa/query.h"

namespace softib::sm::sa {

namespace {

constexpr u8 packet_life = 0x12;
constexpr u32 most_hops = 64;

struct Limits {
  u8 mtu = 5;
  u8 rate = 0;

  void take(const Port& port) {
    mtu = std::min(mtu, static_cast<u8>(port.get(port_info::neighbor_mtu)));
    if (rate == 0 || rate_mbps(port.rate) < rate_mbps(rate)) rate = port.rate;
  }
};

// The LIDs that a query may mean for one side: all of a port's, or the one that it names.
struct Side {
  std::vector<End> ends;
  u16 lid = 0;

  [[nodiscard]] bool named() const { return lid != 0; }
};

SaStatus find_side(const View& view, const Query& query, u32 has_gid, u32 gid_at, u32 has_lid, wire::Field lid,
                   Side& side) {
  if (query.has(has_gid)) {
    const auto end = end_of_gid(view, query.gid(gid_at));
    if (!end) return SaStatus::invalid_gid;
    side.ends = {*end};
  }
  if (query.has(has_lid)) {
    const auto end = view.subnet.end_of_lid(static_cast<u32>(query.get(lid)));
    if (!end || (!side.ends.empty() && side.ends[0] != *end)) return SaStatus::no_records;
    side.ends = {*end};
    side.lid = static_cast<u16>(query.get(lid));
  }
  if (side.ends.empty()) side.ends = view.subnet.ends;
  return SaStatus::ok;
}

// Lowers a value to what the query asks for, where a path can do more: "less than" and "exactly" are met by less.
void lower(const Query& query, Record<64>& record) {
  if (query.has(path::has_mtu_selector) && query.has(path::has_mtu)) {
    const u64 asked = query.get(path::mtu), actual = wire::get(record.bytes, path::mtu);
    const auto how = static_cast<Selector>(query.get(path::mtu_selector));
    if (how == Selector::exactly && actual > asked) record.set(path::mtu, asked);
    if (how == Selector::less && actual >= asked && asked > 1) record.set(path::mtu, asked - 1);
  }
  if (!query.has(path::has_rate_selector) || !query.has(path::has_rate)) return;
  const auto asked = static_cast<u8>(query.get(path::rate));
  const auto actual = static_cast<u8>(wire::get(record.bytes, path::rate));
  const auto how = static_cast<Selector>(query.get(path::rate_selector));
  if (how == Selector::exactly && rate_mbps(actual) > rate_mbps(asked)) record.set(path::rate, asked);
  if (how == Selector::less && rate_mbps(actual) >= rate_mbps(asked) && slower_rate(asked))
    record.set(path::rate, slower_rate(asked));
}

// P_Key of a path: the one asked for, if both ends have it.
u16 choose_pkey(const View& view, const Query& query, End from, End to) {
  const Port &a = view.subnet.port(from), &b = view.subnet.port(to);
  if (!query.has(path::has_pkey)) return common_pkey(a, b);
  const auto asked = static_cast<u16>(query.get(path::pkey));
  const auto full = [asked](const Port& port) {
    return std::find(port.pkeys.begin(), port.pkeys.end(), asked | full_member) != port.pkeys.end();
  };
  if (!holds_pkey(a, asked) || !holds_pkey(b, asked) || (!full(a) && !full(b) && from != to)) return 0;
  return asked;
}

class Finder {
 public:
  Finder(const View& view, const Query& query, Answer& answer, u32 most)
      : view_(view), query_(query), answer_(answer), most_(most) {}

  void pair(End from, End to, const Side& source, const Side& destination) {
    if (!visible(view_, query_, from) || !visible(view_, query_, to)) return;
    const Port &a = view_.subnet.port(from), &b = view_.subnet.port(to);
    if (a.lid == 0 || b.lid == 0) return;
    const u32 count = std::max(source.named() ? 1U : 1U << a.lmc, destination.named() ? 1U : 1U << b.lmc);
    for (u32 i = 0; i < count && found_ < most_; ++i) {
      const u16 slid = source.named() ? source.lid : static_cast<u16>(a.lid + i % (1U << a.lmc));
      const u16 dlid = destination.named() ? destination.lid : static_cast<u16>(b.lid + i % (1U << b.lmc));
      add(from, to, slid, dlid);
    }
  }

  // A limit for each pair; over all pairs of an open question there is none.
  void next_pair() { found_ = 0; }
  [[nodiscard]] bool full() const { return found_ >= most_; }

 private:
  void add(End from, End to, u16 slid, u16 dlid) {
    const auto found = find_path(view_, from, to, dlid);
    if (!found) return;
    const u16 pkey = choose_pkey(view_, query_, from, to);
    if (pkey == 0) return;
    Record<64> record;
    record.put(path::dgid_at, make_gid(view_.options.subnet_prefix, view_.subnet.port(to).guid));
    record.put(path::sgid_at, make_gid(view_.options.subnet_prefix, view_.subnet.port(from).guid));
    // What it is wanted for comes back as it was.
    constexpr std::pair<u32, wire::Field> echoed[] = {{path::has_service_lsb, path::service_id},
                                                      {path::has_flow, path::flow_label},
                                                      {path::has_hop, path::hop_limit},
                                                      {path::has_class, path::traffic_class},
                                                      {path::has_qos_class, path::qos_class}};
    for (const auto& [component, field] : echoed)
      if (query_.has(component)) record.set(field, query_.get(field));
    record.set(path::dlid, dlid);
    record.set(path::slid, slid);
    record.set(path::reversible, 1);
    record.set(path::pkey, pkey);
    record.set(path::sl, query_.has(path::has_sl) ? query_.get(path::sl) : view_.partitions.sl(pkey));
    record.set(path::mtu_selector, static_cast<u8>(Selector::exactly));
    record.set(path::mtu, found->mtu);
    record.set(path::rate_selector, static_cast<u8>(Selector::exactly));
    record.set(path::rate, found->rate);
    record.set(path::life_selector, static_cast<u8>(Selector::exactly));
    record.set(path::life, from == to ? 0 : packet_life);
    record.set(path::preference, found_);
    lower(query_, record);
    const u32 before = answer_.count;
    answer_.add(record.bytes);
    found_ += answer_.count - before;
  }

  const View& view_;
  const Query& query_;
  Answer& answer_;
  u32 most_;
  u32 found_ = 0;
};

u32 most_paths(const Query& query) {
  if (query.method == wire::Method::get) return 1;
  const auto asked = static_cast<u32>(query.get(path::count));
  return query.has(path::has_count) && asked != 0 ? asked : ~0U;
}

}  // namespace

std::optional<PathTraits> find_path(const View& view, End from, End to, u16 dlid) {
  const Subnet& subnet = view.subnet;
  PathTraits traits;
  Limits limits;
  if (from == to) {
    limits.take(subnet.port(from));
    traits.mtu = limits.mtu;
    traits.rate = limits.rate;
    return traits;
  }
  End at = from;
  for (u32 hop = 0; hop < most_hops; ++hop) {
    const Node& node = subnet.node(at);
    End out = at;
    if (node.is_switch()) {
      const auto table = view.tables.of(node.sw);
      const u8 port = dlid < table.size() ? table[dlid] : no_port;
      if (port == 0 && End{at.node, 0} == to) break;
      if (port == 0 || port >= node.ports.size()) return std::nullopt;
      out.port = port;
    } else if (hop != 0) {
      if (at != to) return std::nullopt;
      break;
    }
    const Port& port = subnet.port(out);
    if (!port.linked()) return std::nullopt;
    traits.hops.push_back(out);
    limits.take(port);
    at = port.peer;
  }
  const End end = subnet.node(at).is_switch() ? End{at.node, 0} : at;
  if (end != to) return std::nullopt;
  traits.mtu = limits.mtu;
  traits.rate = limits.rate;
  return traits;
}

SaStatus add_paths(const View& view, const Query& query, Answer& answer) {
  Side source, destination;
  const SaStatus from = find_side(view, query, path::has_sgid, path::sgid_at, path::has_slid, path::slid, source);
  if (from != SaStatus::ok) return from;
  const SaStatus to = find_side(view, query, path::has_dgid, path::dgid_at, path::has_dlid, path::dlid, destination);
  if (to != SaStatus::ok) return to;
  Finder finder(view, query, answer, most_paths(query));
  for (const End a : source.ends)
    for (const End b : destination.ends) {
      finder.next_pair();
      finder.pair(a, b, source, destination);
      if (query.method == wire::Method::get && finder.full()) return SaStatus::ok;
    }
  return SaStatus::ok;
}

// The request names several ports for each side; the answer is paths between them.
SaStatus add_multi_paths(const View& view, const Query& query, Answer& answer) {
  constexpr wire::Field sources{120, 8}, destinations{128, 8}, counted{41, 7};
  constexpr u32 gids_at = 24;
  const auto source_count = static_cast<u32>(query.get(sources));
  const auto all = source_count + static_cast<u32>(query.get(destinations));
  if (source_count == 0 || source_count == all) return SaStatus::insufficient_components;
  if (gids_at + all * 16 > query.data.size()) return SaStatus::request_invalid;
  std::vector<End> ends;
  for (u32 i = 0; i < all; ++i) {
    const auto end = end_of_gid(view, query.gid(gids_at + i * 16));
    if (!end) return SaStatus::invalid_gid;
    ends.push_back(*end);
  }
  // The same fields lie elsewhere in a path's record, and have other bits in the mask: those from the traffic kind to
  // the packet life time come in the same order.
  Query as_path = query;
  as_path.data.assign(64, 0);
  std::copy_n(query.data.begin(), 13, as_path.data.begin() + 44);
  as_path.mask = (query.mask & 0xffff) << 6;
  const u32 limit = query.has(6) && query.get(counted) ? static_cast<u32>(query.get(counted)) : ~0U;
  const Layout& layout = *find_layout(RecordType::path);
  for (u32 a = 0; a < source_count; ++a)
    for (u32 b = source_count; b < all && answer.count < limit; ++b) {
      Answer some(layout, as_path);
      Finder finder(view, as_path, some, limit - answer.count);
      finder.pair(ends[a], ends[b], {}, {});
      for (u32 i = 0; i < some.count; ++i) answer.add_anyway(std::span(some.bytes).subspan(i * 64, 64));
    }
  return SaStatus::ok;
}

// One record for each node on the way, that of a PathRecord question.
void add_trace(const View& view, const Query& query, Answer& answer) {
  Side source, destination;
  if (find_side(view, query, path::has_sgid, path::sgid_at, path::has_slid, path::slid, source) != SaStatus::ok ||
      find_side(view, query, path::has_dgid, path::dgid_at, path::has_dlid, path::dlid, destination) != SaStatus::ok ||
      source.ends.size() != 1 || destination.ends.size() != 1)
    return;
  const End to = destination.ends[0];
  const u16 dlid = destination.named() ? destination.lid : view.subnet.port(to).lid;
  const auto found = find_path(view, source.ends[0], to, dlid);
  if (!found || !visible(view, query, to)) return;
  End in;
  for (std::size_t i = 0; i <= found->hops.size(); ++i) {
    const End out = i < found->hops.size() ? found->hops[i] : End{to.node, 0};
    const Node& node = view.subnet.node(out);
    Record<48> record;
    record.set({0, 64}, view.options.subnet_prefix);
    record.set({88, 8}, static_cast<u8>(node.kind));
    record.set({96, 64}, node.guid);
    record.set({160, 64}, wire::get(node.info, node_info::system_guid));
    if (in.node != nowhere) record.set({224, 64}, view.subnet.port(in).guid);
    record.set({288, 64}, view.subnet.port(out).guid);
    record.set({352, 8}, in.node == nowhere ? 0 : in.port);
    record.set({360, 8}, i < found->hops.size() ? out.port : 0);
    answer.add_anyway(record.bytes);
    if (i < found->hops.size()) in = view.subnet.port(out).peer;
  }
}

}  // namespace softib::sm::sa
