#include "net/links.h"

#include <algorithm>
#include <bit>

namespace softib::net {

using ipc::PortState;

namespace {

bool willing(const World& world, const Port& port) {
  return world.node(port).on && (port.physical == PhysicalState::polling || port.physical == PhysicalState::sleep);
}

// The state of a port changed by itself, not because its manager set it: switches tell (IBTA vol. 1, 14.2.5.4).
void tell(World& world, const Port& port) {
  Node& node = world.node(port);
  if (!node.sw || !node.on) return;
  node.sw->state_change = true;
  world.traps.link_state(port.ref.node);
}

void bring_up(World& world, Port& port, fabric::Speed speed, fabric::Width width) {
  port.physical = PhysicalState::up;
  port.state = PortState::init;
  port.speed = speed;
  port.width = width;
  tell(world, port);
  world.observer.port_changed(port.ref);
}

void bring_down(World& world, Port& port, bool commanded) {
  const bool was_up = port.state != PortState::down;
  port.state = PortState::down;
  port.speed = fabric::Speed::sdr;  // what training begins with
  if (port.physical == PhysicalState::up) port.physical = PhysicalState::polling;
  if (was_up && !commanded) {
    port.tally[index_of(Cause::link_downed)] += world.node(port).on;
    tell(world, port);
  }
  world.observer.port_changed(port.ref);
}

}  // namespace

bool carries_management(const World& world, const Port& out) {
  return out.peer != none && out.state >= PortState::init && world.ports[out.peer].state >= PortState::init;
}

bool carries_data(const World& world, const Port& out) {
  return out.peer != none && out.state == PortState::active && world.ports[out.peer].state >= PortState::armed;
}

u16 speeds_up_to(fabric::Speed fastest) { return static_cast<u16>((static_cast<u32>(fastest) << 1) - 1); }

u8 widths_up_to(fabric::Width widest) {
  u8 mask = 0;
  for (const fabric::WidthRow& row : fabric::width_table)
    if (row.lanes <= fabric::lanes_of(widest)) mask |= static_cast<u8>(row.width);
  return mask;
}

fabric::Width widest(u8 mask) {
  fabric::Width best = fabric::Width::x1;
  for (const fabric::WidthRow& row : fabric::width_table)
    if ((mask & static_cast<u8>(row.width)) && row.lanes > fabric::lanes_of(best)) best = row.width;
  return best;
}

void train(World& world, Cable& cable) {
  Port& a = world.ports[cable.ends[0]];
  Port& b = world.ports[cable.ends[1]];
  if (cable.cut || !willing(world, a) || !willing(world, b)) return;
  if (a.physical == PhysicalState::sleep && b.physical == PhysicalState::sleep) return;  // nobody wakes the other
  const u16 speeds = a.speeds_enabled & b.speeds_enabled & cable.speeds & cable.speed_limit;
  const u8 widths = a.widths_enabled & b.widths_enabled & cable.widths & cable.width_limit;
  if (!speeds || !widths) return;
  const auto speed = static_cast<fabric::Speed>(std::bit_floor(speeds));
  const auto width = widest(widths);
  const Post::Hold hold(world.post);
  a.neighbor_mtu = b.neighbor_mtu = std::min(a.mtu_cap, b.mtu_cap);
  bring_up(world, a, speed, width);
  bring_up(world, b, speed, width);
}

void lose(World& world, Cable& cable, u32 commanded) {
  const Post::Hold hold(world.post);
  for (const u32 end : cable.ends) bring_down(world, world.ports[end], end == commanded);
}

void command_down(World& world, Port& port) {
  if (port.peer == none) return;
  Cable& cable = world.cables[port.cable];
  if (port.state == PortState::down) return;
  const Post::Hold hold(world.post);
  lose(world, cable, world.index(port.ref));
  port.physical = static_cast<PhysicalState>(port.link_down_default);
  train(world, cable);
}

void command_physical(World& world, Port& port, PhysicalState state) {
  if (port.physical == state) return;
  const Post::Hold hold(world.post);
  const bool was_up = port.physical == PhysicalState::up;
  port.physical = state;
  if (was_up && port.cable != none) {
    lose(world, world.cables[port.cable], world.index(port.ref));
    tell(world, port);  // it is the link's logic that took the port down, not its manager
  }
  if (!was_up) world.observer.port_changed(port.ref);
  if (port.cable != none) train(world, world.cables[port.cable]);
}

bool command_state(World& world, Port& port, PortState state) {
  if (port.state == state) return true;
  const bool one_step = (state == PortState::armed && port.state == PortState::init) ||
                        (state == PortState::active && port.state == PortState::armed);
  if (!one_step) return false;
  port.state = state;
  world.observer.port_changed(port.ref);
  return true;
}

void saw_data(World& world, Port& port) {
  if (port.state != PortState::armed || port.peer == none) return;
  port.state = PortState::active;
  world.observer.port_changed(port.ref);
}

}  // namespace softib::net
