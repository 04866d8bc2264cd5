#include "net/sma/sma.h"

namespace softib::net {

namespace {

using wire::MadStatus;
using wire::SmpAttribute;

struct Row {
  SmpAttribute attribute;
  bool settable;
  SmaHandler* handler;
};

constexpr Row rows[] = {
    {SmpAttribute::node_description, false, sma_node_description},
    {SmpAttribute::node_info, false, sma_node_info},
    {SmpAttribute::switch_info, true, sma_switch_info},
    {SmpAttribute::guid_info, true, sma_guid_info},
    {SmpAttribute::port_info, true, sma_port_info},
    {SmpAttribute::pkey_table, true, sma_pkey_table},
    {SmpAttribute::sl_to_vl, true, sma_sl_to_vl},
    {SmpAttribute::vl_arbitration, true, sma_vl_arbitration},
    {SmpAttribute::linear_forwarding, true, sma_linear_forwarding},
    {SmpAttribute::multicast_forwarding, true, sma_multicast_forwarding},
    {SmpAttribute::led_info, true, sma_led_info},
    {SmpAttribute::vendor_diag, false, sma_vendor_diag},
    {SmpAttribute::mlnx_ext_port_info, true, sma_mlnx_ext_port_info},
};

const Row* find(u16 attribute) {
  for (const Row& row : rows)
    if (static_cast<u16>(row.attribute) == attribute) return &row;
  return nullptr;
}

}  // namespace

Port* port_of(const SmaCall& call, u32 number) {
  if (number > call.node.ports) return nullptr;
  if (number == 0 && !call.node.sw) return &call.port;
  return &call.world.ports[call.node.first + number];
}

std::optional<MadStatus> sma(World& world, u32 at, Packet& packet) {
  Port& port = world.ports[at];
  const KeyCheck key = check_m_key(world, world.managed(port), packet);
  if (key == KeyCheck::refused) return std::nullopt;
  const bool set = wire::method_of(packet.mad) == wire::Method::set;
  const Row* row = find(wire::attribute_of(packet.mad));
  if (!row || (set && !row->settable)) return MadStatus::bad_attribute;
  return row->handler({world, world.node(port), port, set, key == KeyCheck::fits,
                       static_cast<u32>(wire::get(packet.mad, wire::header::modifier)),
                       std::span(packet.mad).subspan(wire::smp::data_at, wire::smp::data_size)});
}

}  // namespace softib::net
