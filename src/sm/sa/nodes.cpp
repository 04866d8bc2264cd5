// Records that the manager's model of the subnet answers.
#include <algorithm>

#include "sm/sa/query.h"

namespace softib::sm::sa {

std::optional<End> end_of_gid(const View& view, const GidBytes& gid) {
  constexpr u64 link_local = 0xfe80'0000'0000'0000;
  if (prefix_of(gid) != view.options.subnet_prefix && prefix_of(gid) != link_local) return std::nullopt;
  return view.subnet.end_of_guid(guid_of(gid));
}

u16 common_pkey(const Port& a, const Port& b) {
  for (const u16 mine : a.pkeys) {
    if ((mine & default_key) == 0) continue;
    for (const u16 theirs : b.pkeys) {
      if (((mine ^ theirs) & default_key) != 0 || ((mine | theirs) & full_member) == 0) continue;
      return static_cast<u16>((mine & theirs & full_member) | (mine & default_key));
    }
  }
  return 0;
}

bool holds_pkey(const Port& port, u16 pkey) {
  return std::any_of(port.pkeys.begin(), port.pkeys.end(),
                     [pkey](u16 key) { return (pkey & default_key) != 0 && ((key ^ pkey) & default_key) == 0; });
}

bool visible(const View& view, const Query& query, End end) {
  if (query.from.node == nowhere) return false;
  const Node& node = view.subnet.node(end);
  const End holder = node.is_switch() ? End{end.node, 0} : end;
  return holder == query.from || common_pkey(view.subnet.port(query.from), view.subnet.port(holder)) != 0;
}

namespace {

// Calls with each end port that has a LID which the query may mean.
template <typename Call>
void for_each_end(const View& view, const Query& query, const Answer& answer, Call call) {
  for (const End end : view.subnet.ends) {
    const u16 lid = view.subnet.port(end).lid;
    if (lid != 0 && answer.wants(lid) && visible(view, query, end)) call(end, view.subnet.node(end), lid);
  }
}

}  // namespace

void add_nodes(const View& view, const Query& query, Answer& answer) {
  for_each_end(view, query, answer, [&](End end, const Node& node, u16 lid) {
    Record<112> record;
    record.set(lid_record::lid, lid);
    record.put(4, node.info);
    record.set(node_info::port_guid.shifted(32), view.subnet.port(end).guid);
    record.set(node_info::local_port.shifted(32), end.port);
    record.put(44, node.description);
    answer.add(record.bytes);
  });
}

void add_port_infos(const View& view, const Query& query, Answer& answer) {
  for_each_end(view, query, answer, [&](End end, const Node& node, u16 lid) {
    const bool is_switch = node.is_switch();
    for (u32 number = is_switch ? 0 : end.port; number < (is_switch ? node.ports.size() : end.port + 1U); ++number) {
      if (!node.ports[number].known) continue;
      Record<72> record;
      record.set(lid_record::lid, lid);
      record.set({16, 8}, number);
      record.put(4, node.ports[number].info);
      if (!query.trusted) record.set(port_info::m_key.shifted(32), 0);
      answer.add(record.bytes);
    }
  });
}

void add_switch_infos(const View& view, const Query& query, Answer& answer) {
  for_each_end(view, query, answer, [&](End, const Node& node, u16 lid) {
    if (!node.is_switch()) return;
    Record<24> record;
    record.set(lid_record::lid, lid);
    record.put(4, node.switch_info);
    answer.add(record.bytes);
  });
}

void add_links(const View& view, const Query& query, Answer& answer) {
  for_each_end(view, query, answer, [&](End end, const Node& node, u16 lid) {
    for (u32 number = node.is_switch() ? 1 : end.port; number < node.ports.size(); ++number) {
      const Port& port = node.ports[number];
      if (port.linked() && visible(view, query, port.peer)) {
        Record<8> record;
        record.set({0, 16}, lid);
        record.set({16, 8}, number);
        record.set({24, 8}, port.peer.port);
        record.set({32, 16}, view.subnet.lid_of(port.peer));
        answer.add(record.bytes);
      }
      if (!node.is_switch()) break;
    }
  });
}

void add_linear(const View& view, const Query& query, Answer& answer) {
  for_each_end(view, query, answer, [&](End, const Node& node, u16 lid) {
    if (!node.is_switch()) return;
    const auto table = view.tables.of(node.sw);
    for (u32 block = 0; block < table.size() / 64; ++block) {
      Record<72> record;
      record.set(lid_record::lid, lid);
      record.set({16, 16}, block);
      record.put(8, table.subspan(block * 64, 64));
      answer.add(record.bytes);
    }
  });
}

void add_multicast(const View& view, const Query& query, Answer& answer) {
  if (!view.multicast) return;
  for_each_end(view, query, answer, [&](End, const Node& node, u16 lid) {
    if (!node.is_switch()) return;
    for (u32 place = 0; place < view.multicast->blocks() * view.multicast->positions(node.sw); ++place) {
      const u32 positions = view.multicast->positions(node.sw);
      Record<72> record;
      record.set(lid_record::lid, lid);
      record.set({16, 4}, place % positions);
      record.set({23, 9}, place / positions);
      u16 at = 64;
      for (const u16 mask : view.multicast->block(node.sw, place / positions, place % positions)) {
        record.set({at, 16}, mask);
        at = static_cast<u16>(at + 16);
      }
      answer.add(record.bytes);
    }
  });
}

void add_managers(const View& view, const Query& query, Answer& answer) {
  const auto add = [&](u16 lid, u64 guid, u64 key, u32 activity, u8 priority, State state) {
    Record<32> record;
    record.set(lid_record::lid, lid);
    record.set(sm_info::guid.shifted(32), guid);
    if (query.trusted) record.set(sm_info::sm_key.shifted(32), key);
    record.set(sm_info::activity.shifted(32), activity);
    record.set(sm_info::priority.shifted(32), priority);
    record.set(sm_info::state.shifted(32), static_cast<u8>(state));
    answer.add(record.bytes);
  };
  const Self& self = view.self;
  add(view.subnet.own_lid(), self.guid, 0, view.activity, self.priority, self.state);
  for (const Rival& rival : view.rivals)
    add(view.subnet.lid_of(rival.end), rival.guid, rival.sm_key, rival.activity, rival.priority, rival.state);
}

}  // namespace softib::sm::sa
