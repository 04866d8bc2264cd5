#include "daemon/faults.h"

#include <algorithm>
#include <cmath>

#include "base/durations.h"

namespace softib::daemon {

namespace {

using ipc::FaultKind;
using net::PortRef;

constexpr u64 longest = 24ULL * 3600 * 1000 * ns::millisecond;
constexpr u64 longest_delay = 10'000 * ns::millisecond;
constexpr u64 most_counts = u64{1} << 48;
constexpr u32 most_flaps = 1'000'000;

// Those of errors are in the same order, but that traffic stands before xmit_wait.
net::Cause cause_of(ipc::PortCounter counter) {
  using ipc::PortCounter;
  static_assert(static_cast<u32>(PortCounter::symbol_error) == static_cast<u32>(net::Cause::symbol_error));
  static_assert(static_cast<u32>(PortCounter::port_xmit_discards) == static_cast<u32>(net::Cause::xmit_discard));
  static_assert(static_cast<u32>(PortCounter::vl15_dropped) == static_cast<u32>(net::Cause::vl15_dropped));
  return counter == PortCounter::port_xmit_wait ? net::Cause::xmit_wait : static_cast<net::Cause>(counter);
}

enum class Target : u8 { none, cable, two_cables, port, node, host, hca };

Target target_of(FaultKind kind) {
  switch (kind) {
    case FaultKind::link_down:
    case FaultKind::link_up:
    case FaultKind::link_flap:
    case FaultKind::link_speed:
    case FaultKind::link_width:
    case FaultKind::bit_errors:
    case FaultKind::drop:
    case FaultKind::delay:
    case FaultKind::link_reset:
      return Target::cable;
    case FaultKind::swap:
      return Target::two_cables;
    case FaultKind::stick_counters:
    case FaultKind::free_counters:
    case FaultKind::add_count:
      return Target::port;
    case FaultKind::power_off:
    case FaultKind::power_on:
      return Target::node;
    case FaultKind::reboot:
      return Target::host;
    case FaultKind::remove_hca:
    case FaultKind::add_hca:
      return Target::hca;
    case FaultKind::stop_manager:
    case FaultKind::start_manager:
    case FaultKind::stop_aggregation:
    case FaultKind::start_aggregation:
      return Target::none;
  }
  return Target::none;
}

template <typename Table>
bool is_row(const Table& table, u64 value) {
  return std::any_of(table.begin(), table.end(), [value](const auto& row) {
    if constexpr (requires { row.lanes; })
      return static_cast<u64>(row.width) == value;
    else
      return static_cast<u64>(row.speed) == value;
  });
}

bool is_share(double rate, double most) { return std::isfinite(rate) && rate >= 0 && rate <= most; }

bool values_fit(const ipc::Fault::Request& request) {
  switch (request.kind) {
    case FaultKind::link_flap:
      return request.times >= 1 && request.times <= most_flaps && request.ns >= ns::millisecond &&
             request.ns <= longest;
    case FaultKind::link_speed:
      return is_row(fabric::speed_table, request.amount);
    case FaultKind::link_width:
      return is_row(fabric::width_table, request.amount);
    case FaultKind::bit_errors:
      return is_share(request.rate, 0.5);
    case FaultKind::drop:
      return is_share(request.rate, 1);
    case FaultKind::delay:
      return request.ns <= longest_delay;
    case FaultKind::add_count:
      return ipc::counts_errors(request.counter) && request.amount >= 1 && request.amount <= most_counts;
    case FaultKind::reboot:
      return request.ns <= longest;
    default:
      return request.kind >= FaultKind::link_down && request.kind <= FaultKind::start_aggregation;
  }
}

}  // namespace

Faults::Faults(const fabric::Fabric& fabric, Plane& plane)
    : fabric_(fabric), plane_(plane), network_(plane.network()) {}

bool Faults::is_place(const ipc::FaultPlace& place) const {
  if (place.is_switch > 1) return false;
  if (place.is_switch)
    return place.node < fabric_.switches.size() && place.hca == 0 && place.port <= fabric_.switches[place.node].ports;
  if (place.node >= fabric_.hosts.size()) return false;
  const auto& hcas = fabric_.hosts[place.node].hcas;
  return place.hca < hcas.size() && place.port <= hcas[place.hca].ports.size();
}

PortRef Faults::port_at(const ipc::FaultPlace& place) const {
  const u32 node = place.is_switch ? network_.switch_node(place.node) : network_.hca_node(place.node, place.hca);
  return {node, static_cast<u8>(place.port)};
}

Result<void> Faults::check(const ipc::Fault::Request& request) const {
  if (!values_fit(request)) return fail(EINVAL);
  if (target_of(request.kind) != Target::none) return check_place(request);
  if (request.kind == FaultKind::stop_aggregation || request.kind == FaultKind::start_aggregation) return fail(ENOENT);
  if (!plane_.has_places_for_managers()) return fail(ENOENT);
  return {};
}

Result<void> Faults::check_place(const ipc::Fault::Request& request) const {
  const Target target = target_of(request.kind);
  if (!is_place(request.a)) return fail(EINVAL);
  const bool whole = target == Target::node || target == Target::host || target == Target::hca;
  if (whole != (request.a.port == 0)) return fail(EINVAL);
  if ((target == Target::host || target == Target::hca) && request.a.is_switch) return fail(EINVAL);
  if (request.kind == FaultKind::add_hca && is_off(request.a.node)) return fail(EHOSTDOWN);
  if (target == Target::cable && !network_.other_end(port_at(request.a))) return fail(ENXIO);
  if (target != Target::two_cables) return {};
  if (!is_place(request.b) || request.b.port == 0) return fail(EINVAL);
  const PortRef a = port_at(request.a);
  const PortRef b = port_at(request.b);
  const auto far = network_.other_end(a);
  if (a == b || far == b) return fail(EINVAL);
  if (!far && !network_.other_end(b)) return fail(ENXIO);
  return {};
}

std::optional<u32> Faults::dying_host(const ipc::Fault::Request& request) const {
  const bool dies = request.kind == FaultKind::power_off || request.kind == FaultKind::reboot;
  if (!dies || request.a.is_switch) return std::nullopt;
  return request.a.node;
}

u32 Faults::disabled_ports(const ipc::Fault::Request& request) const {
  if (request.kind != FaultKind::link_up) return 0;
  const PortRef port = port_at(request.a);
  const auto is_disabled = [&](PortRef at) { return network_.port(at).physical == net::PhysicalState::disabled; };
  return u32{is_disabled(port)} + u32{is_disabled(*network_.other_end(port))};
}

bool Faults::apply(const ipc::Fault::Request& request) {
  plane_.touch();
  const PortRef port = target_of(request.kind) == Target::none ? PortRef{} : port_at(request.a);
  switch (request.kind) {
    case FaultKind::swap:
      network_.swap_cables(port, port_at(request.b));
      return true;
    case FaultKind::stick_counters:
    case FaultKind::free_counters: {
      const bool stuck = request.kind == FaultKind::stick_counters;
      const bool before = network_.is_stuck(port);
      network_.stick_counters(port, stuck);
      return before != stuck;
    }
    case FaultKind::add_count:
      network_.count(port, cause_of(request.counter), request.amount);
      return true;
    case FaultKind::power_off:
    case FaultKind::power_on:
      return power(request.a, request.kind == FaultKind::power_on);
    case FaultKind::reboot:
      power(request.a, false);
      boots_.push_back({request.a.node, request.ns, 0});
      return true;
    case FaultKind::remove_hca:
    case FaultKind::add_hca:
      return set_present({request.a.node, request.a.hca}, request.kind == FaultKind::add_hca);
    case FaultKind::stop_manager:
    case FaultKind::start_manager:
      return set_managers(request.kind == FaultKind::start_manager);
    default:
      return apply_to_link(request, port);
  }
}

bool Faults::apply_to_link(const ipc::Fault::Request& request, PortRef port) {
  const net::LinkFaults now = network_.faults(port);
  net::LinkQuality quality = now.quality;
  switch (request.kind) {
    case FaultKind::link_down:
    case FaultKind::link_up: {
      const bool stopped = stop_flapping(port);
      return set_cut(port, request.kind == FaultKind::link_down) || stopped;
    }
    case FaultKind::link_flap:
      stop_flapping(port);
      flaps_.push_back({port, 2 * request.times, request.ns / 2, 0});
      return true;
    case FaultKind::link_speed:
      return limit(port, static_cast<fabric::Speed>(request.amount), now.width);
    case FaultKind::link_width:
      return limit(port, now.speed, static_cast<fabric::Width>(request.amount));
    case FaultKind::bit_errors:
      quality.bit_error_rate = request.rate;
      return set_quality(port, quality);
    case FaultKind::drop:
      quality.drop = request.rate;
      return set_quality(port, quality);
    case FaultKind::delay:
      quality.delay_ns = request.ns;
      return set_quality(port, quality);
    default:
      return reset(port);
  }
}

bool Faults::set_cut(PortRef port, bool cut) {
  if (network_.faults(port).cut == cut) return false;
  if (cut)
    network_.cut(port);
  else
    network_.mend(port);
  return true;
}

bool Faults::limit(PortRef port, std::optional<fabric::Speed> speed, std::optional<fabric::Width> width) {
  const net::LinkFaults now = network_.faults(port);
  if (now.speed == speed && now.width == width) return false;
  network_.limit(port, speed, width);
  return true;
}

bool Faults::set_quality(PortRef port, const net::LinkQuality& quality) {
  if (network_.faults(port).quality == quality) return false;
  network_.set_quality(port, quality);
  return true;
}

bool Faults::reset(PortRef port) {
  bool changed = stop_flapping(port);
  changed |= limit(port, std::nullopt, std::nullopt);
  changed |= set_quality(port, {});
  changed |= network_.enable_ports(port);
  return set_cut(port, false) || changed;
}

bool Faults::stop_flapping(PortRef port) {
  const auto far = network_.other_end(port);
  return std::erase_if(flaps_, [&](const Flap& flap) { return flap.port == port || (far && flap.port == *far); }) != 0;
}

// One that runs starts anew too: it knows nothing then, and sweeps.
bool Faults::set_managers(bool run) {
  const bool stopped = plane_.managers_stopped();
  if (stopped && !run) return false;
  if (!stopped) plane_.stop_managers();
  if (run) plane_.start_managers();
  return true;
}

std::vector<u32> Faults::nodes_of(const ipc::FaultPlace& place) const {
  if (place.is_switch) return {network_.switch_node(place.node)};
  std::vector<u32> nodes;
  for (u32 hca = 0; hca < fabric_.hosts[place.node].hcas.size(); ++hca)
    nodes.push_back(network_.hca_node(place.node, hca));
  return nodes;
}

// A host that is switched on has all its HCAs again.
bool Faults::power(const ipc::FaultPlace& place, bool on) {
  bool changed = false;
  if (!place.is_switch) {
    std::erase_if(boots_, [&](const Boot& boot) { return boot.host == place.node; });
    changed = std::erase_if(removed_, [&](const HcaPlace& hca) { return hca.host == place.node; }) != 0;
    changed |= on ? off_.erase(place.node) != 0 : off_.insert(place.node).second;
  }
  for (const u32 node : nodes_of(place)) {
    changed |= network_.is_on(node) != on;
    plane_.power(node, on);
  }
  return changed;
}

bool Faults::set_present(HcaPlace hca, bool present) {
  const bool changed = present ? removed_.erase(hca) != 0 : !is_off(hca.host) && removed_.insert(hca).second;
  if (changed) plane_.power(network_.hca_node(hca.host, hca.hca), present);
  return changed;
}

u64 Faults::on_time(u64 now) { return std::min(advance_flaps(now), advance_boots(now)); }

u64 Faults::advance_flaps(u64 now) {
  u64 next = ~u64{0};
  for (Flap& flap : flaps_) {
    if (flap.due == 0) flap.due = now;
    // One change a call, however late it is: each is to be seen.
    if (flap.due <= now) {
      set_cut(flap.port, --flap.changes_left % 2 == 1);
      flap.due = now + flap.half;
    }
    next = std::min(next, flap.due);
  }
  std::erase_if(flaps_, [](const Flap& flap) { return flap.changes_left == 0; });
  return next;
}

u64 Faults::advance_boots(u64 now) {
  u64 next = ~u64{0};
  std::vector<u32> ready;
  for (Boot& boot : boots_) {
    if (boot.due == 0) boot.due = now + boot.after;
    if (boot.due <= now)
      ready.push_back(boot.host);
    else
      next = std::min(next, boot.due);
  }
  for (const u32 host : ready) power({0, host, 0, 0}, true);
  return next;
}

FaultReport Faults::report() const {
  std::vector<PortRef> flapping;
  for (const Flap& flap : flaps_) flapping.push_back(flap.port);
  return {fabric_, plane_, {std::move(flapping), off_, removed_}};
}

}  // namespace softib::daemon
