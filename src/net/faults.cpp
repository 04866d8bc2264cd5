#include "net/faults.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

#include "base/durations.h"
#include "net/links.h"
#include "net/pma/monitor.h"

namespace softib::net {

namespace {

constexpr u16 any_speed = 0xffff;
constexpr u8 any_width = 0xff;

void plug(World& world, u32 cable, u32 end, u32 port) {
  world.cables[cable].ends[end] = port;
  world.ports[port].cable = cable;
}

void join(World& world, Cable& cable) {
  world.ports[cable.ends[0]].peer = cable.ends[1];
  world.ports[cable.ends[1]].peer = cable.ends[0];
}

// A receiver that meets four bad symbols with hardly a good one in between has lost its place, and the link recovers:
// of ten bits a symbol, three good ones in between at most. So it takes a rate far above that of mere bit errors.
double recoveries_per_bit(double bit_error_rate) {
  constexpr double bits_per_symbol = 10;
  constexpr double places = 64;
  return places * std::pow(std::min(1.0, bits_per_symbol * bit_error_rate), 4) / bits_per_symbol;
}

// The whole ones of what has come together.
u64 take_whole(double& debt, double more) {
  constexpr double most = 1e15;  // however long nobody called
  debt = std::min(debt + more, most);
  const auto whole = static_cast<u64>(debt);
  debt -= static_cast<double>(whole);
  return whole;
}

void count_errors_of(World& world, Cable& cable, u64 nanoseconds) {
  const Port& a = world.ports[cable.ends[0]];
  const double rate = cable.quality.bit_error_rate;
  const double bits = static_cast<double>(nanoseconds) * fabric::data_mbps(a.speed, a.width) / 1000;
  const u64 errors = take_whole(cable.error_debt, bits * rate);
  const u64 recoveries = take_whole(cable.recovery_debt, bits * recoveries_per_bit(rate));
  for (const u32 end : cable.ends) {
    world.ports[end].tally[index_of(Cause::symbol_error)] += errors;
    world.ports[end].tally[index_of(Cause::link_recovery)] += recoveries;
  }
}

u32 end_at(const Cable& cable, u32 port) { return cable.ends[0] == port ? 0 : 1; }

void lose_if_up(World& world, Port& port) {
  if (port.cable != none && port.state != ipc::PortState::down) lose(world, world.cables[port.cable]);
}

}  // namespace

void set_cut(World& world, Port& port, bool cut) {
  if (port.cable == none) return;
  const Post::Hold hold(world.post);
  Cable& cable = world.cables[port.cable];
  cable.cut = cut;
  if (cut)
    lose_if_up(world, port);
  else
    train(world, cable);
}

void limit_link(World& world, Port& port, std::optional<fabric::Speed> speed, std::optional<fabric::Width> width) {
  if (port.cable == none) return;
  const Post::Hold hold(world.post);
  Cable& cable = world.cables[port.cable];
  const u16 speeds = speed ? speeds_up_to(*speed) : any_speed;
  const u8 widths = width ? widths_up_to(*width) : any_width;
  if (cable.speed_limit == speeds && cable.width_limit == widths) return;
  cable.speed_limit = speeds;
  cable.width_limit = widths;
  lose_if_up(world, port);
  train(world, cable);
}

// As the port's manager could: `ibportstate` changes these.
bool enable_ports(World& world, Port& port) {
  if (port.cable == none) return false;
  const Post::Hold hold(world.post);
  Cable& cable = world.cables[port.cable];
  bool limited = false;
  bool disabled = false;
  for (const u32 end : cable.ends) {
    Port& one = world.ports[end];
    limited |= one.speeds_enabled != one.speeds_supported || one.widths_enabled != one.widths_supported;
    one.speeds_enabled = one.speeds_supported;
    one.widths_enabled = one.widths_supported;
    if (one.physical != PhysicalState::disabled) continue;
    disabled = true;
    one.physical = PhysicalState::polling;
    world.observer.port_changed(one.ref);
  }
  if (limited) lose_if_up(world, port);
  if (limited || disabled) train(world, cable);
  return limited || disabled;
}

void set_quality(World& world, Port& port, const LinkQuality& quality) {
  if (port.cable == none) return;
  Cable& cable = world.cables[port.cable];
  LinkQuality& now = cable.quality;
  if (now.bit_error_rate <= 0) cable.counted_until = 0;
  world.bad_cables += (quality.bit_error_rate > 0) - (now.bit_error_rate > 0);
  now = quality;
  for (const u32 end : cable.ends) world.observer.routes_changed(world.ports[end].ref.node);
}

LinkFaults faults_of(const World& world, const Port& port) {
  if (port.cable == none) return {};
  const Cable& cable = world.cables[port.cable];
  LinkFaults faults{cable.cut, {}, {}, cable.quality};
  if (cable.speed_limit != any_speed) faults.speed = static_cast<fabric::Speed>(std::bit_floor(cable.speed_limit));
  if (cable.width_limit != any_width) faults.width = widest(cable.width_limit);
  return faults;
}

void set_power(World& world, u32 number, bool on) {
  Node& node = world.nodes[number];
  if (node.on == on) return;
  const Post::Hold hold(world.post);
  node.on = on;
  for (u32 i = 0; i <= node.ports; ++i) {
    Port& port = world.ports[node.first + i];
    if (!on) lose_if_up(world, port);
  }
  world.traps.forget(number);
  boot(world, node);
  if (node.sw && !on) {
    world.ports[node.first].state = ipc::PortState::down;
    world.ports[node.first].physical = PhysicalState::polling;
  }
  for (u32 i = 0; i <= node.ports; ++i) {
    Port& port = world.ports[node.first + i];
    if (on) reset_all(port);
    if (on && port.cable != none) train(world, world.cables[port.cable]);
    if (i != 0 || node.sw) world.observer.port_changed(port.ref);
  }
  world.observer.routes_changed(number);
}

void swap_cables(World& world, Port& a, Port& b) {
  const u32 at_a = world.index(a.ref);
  const u32 at_b = world.index(b.ref);
  if (a.cable == b.cable) return;  // both ends of one cable, or no cables
  const Post::Hold hold(world.post);
  lose_if_up(world, a);
  lose_if_up(world, b);
  const u32 from_a = a.cable;
  const u32 from_b = b.cable;
  const u32 end_a = from_a == none ? 0 : end_at(world.cables[from_a], at_a);
  const u32 end_b = from_b == none ? 0 : end_at(world.cables[from_b], at_b);
  a.cable = b.cable = a.peer = b.peer = none;
  if (from_a != none) plug(world, from_a, end_a, at_b);
  if (from_b != none) plug(world, from_b, end_b, at_a);
  for (const u32 cable : {from_a, from_b})
    if (cable != none) join(world, world.cables[cable]);
  for (const u32 cable : {from_a, from_b})
    if (cable != none) train(world, world.cables[cable]);
}

u64 count_errors(World& world) {
  if (world.bad_cables == 0) return ~u64{0};
  for (Cable& cable : world.cables) {
    if (cable.quality.bit_error_rate <= 0) continue;
    const u64 since = std::exchange(cable.counted_until, world.now);
    if (since == 0 || world.ports[cable.ends[0]].state == ipc::PortState::down) continue;
    count_errors_of(world, cable, world.now - since);
  }
  return world.now + ns::second;
}

}  // namespace softib::net
