// Records of tables that the manager leaves as they are: they are read from the nodes when somebody asks.
#include "sm/sa/query.h"

namespace softib::sm::sa {

namespace {

struct Collector {
  const View& view;
  const Query& query;
  Answer& answer;
  std::vector<Wanted> list;

  // `head`: LID and numbers, of which the query may name some; the table itself can be compared only once it is there.
  void add(const Wanted& wanted) {
    const Layout* layout = find_layout(query.type);
    u64 of_head = 0;
    for (u32 i = 0; i < layout->components.size(); ++i)
      if (layout->components[i].at + layout->components[i].width <= wanted.data_at * 8U) of_head |= bit(i);
    if (matches(*layout, query.data, query.mask & of_head, wanted.record.bytes)) list.push_back(wanted);
  }
};

// A channel adapter's table has no port number, and who names one finds it anyway.
void take_numbers(const Query& query, Wanted& wanted, std::initializer_list<u32> components) {
  for (const u32 component : components) {
    const Component& number = find_layout(query.type)->components[component];
    const wire::Field field{number.at, static_cast<u8>(number.width)};
    if (query.has(component)) wanted.record.set(field, query.get(field));
  }
}

void add_sl_to_vl(Collector& to, Wanted wanted, const Node& node, u32 port) {
  constexpr u32 in_port = 1, out_port = 2;
  wanted.size = 8;
  if (!node.is_switch()) {
    take_numbers(to.query, wanted, {in_port, out_port});
    return to.add(wanted);
  }
  for (u32 out = 0; out < node.ports.size(); ++out) {
    wanted.modifier = port << 8 | out;
    wanted.record.set({16, 8}, port);
    wanted.record.set({24, 8}, out);
    to.add(wanted);
  }
}

// Four blocks for every port, as opensm has them and osmtest looks for them: empty what the port has no room for, and
// those of port 0.
void add_arbitration(Collector& to, Wanted wanted, const Node& node, u32 port) {
  constexpr u32 out_port = 1;
  const Port& info = node.ports[port];
  wanted.record.set({16, 8}, port);
  if (!node.is_switch()) take_numbers(to.query, wanted, {out_port});
  for (u32 block = 1; block <= 4; ++block) {
    const auto cap = info.get(block <= 2 ? port_info::vl_arbitration_low_cap : port_info::vl_arbitration_high_cap);
    wanted.is_empty = port == 0 || cap == 0 || (block % 2 == 0 && cap <= 32);
    wanted.modifier = block << 16 | (node.is_switch() ? port : 0);
    wanted.record.set({24, 8}, block);
    to.add(wanted);
  }
}

void add_pkeys(Collector& to, Wanted wanted, const Node& node, u32 port) {
  const bool external = node.is_switch() && port != 0;
  const u64 capacity = external ? wire::get(node.switch_info, switch_info::partition_enforcement_cap)
                                : wire::get(node.info, node_info::partition_cap);
  wanted.record.set({32, 8}, port);
  for (u32 block = 0; block * 32 < capacity; ++block) {
    wanted.modifier = (external ? port << 16 : 0) | block;
    wanted.record.set({16, 16}, block);
    to.add(wanted);
  }
}

void add_guids(Collector& to, Wanted wanted, const Node& node, u32 port) {
  if (node.is_switch() && port != 0) return;
  const u64 capacity = std::max<u64>(1, node.ports[port].get(port_info::guid_cap));
  for (u32 block = 0; block * 8 < capacity; ++block) {
    wanted.modifier = block;
    wanted.record.set({16, 8}, block);
    to.add(wanted);
  }
}

void add_port(Collector& to, const Node& node, End end, u32 port) {
  Wanted wanted;
  wanted.end = end;
  wanted.record.set(lid_record::lid, to.view.subnet.port(end).lid);
  switch (to.query.type) {
    case RecordType::sl_to_vl:
      wanted.attribute = SmpAttribute::sl_to_vl;
      return add_sl_to_vl(to, wanted, node, port);
    case RecordType::vl_arbitration:
      wanted.attribute = SmpAttribute::vl_arbitration;
      return add_arbitration(to, wanted, node, port);
    case RecordType::pkey_table:
      wanted.attribute = SmpAttribute::pkey_table;
      return add_pkeys(to, wanted, node, port);
    default:
      wanted.attribute = SmpAttribute::guid_info;
      return add_guids(to, wanted, node, port);
  }
}

}  // namespace

std::vector<Wanted> wanted_tables(const View& view, const Query& query, Answer& answer) {
  Collector collector{view, query, answer, {}};
  for (const End end : view.subnet.ends) {
    const Node& node = view.subnet.node(end);
    const u16 lid = view.subnet.port(end).lid;
    if (lid == 0 || !answer.wants(lid) || !visible(view, query, end)) continue;
    for (u32 port = end.port; port < node.ports.size(); ++port) {
      if (node.ports[port].known) add_port(collector, node, end, port);
      if (!node.is_switch()) break;
    }
  }
  return std::move(collector.list);
}

}  // namespace softib::sm::sa
