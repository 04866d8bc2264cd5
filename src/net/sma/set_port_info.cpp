// PortInfo: what Set checks, and does. All of it is checked before anything is done.
#include "net/links.h"
#include "net/sma/sma.h"
#include "net/speeds.h"
#include "wire/notice.h"

namespace softib::net {

namespace {

using ipc::PortState;
using wire::MadStatus;
namespace info = wire::port_info;

constexpr u8 no_change = 0;
constexpr u8 all_supported_speeds = 15;
constexpr u8 all_supported_widths = 0xff;

// Fields that a manager may set to anything, and that nothing here depends on.
constexpr wire::Field free_fields[] = {
    info::init_type,        info::vl_high_limit,      info::vl_stall_count,
    info::hoq_life,         info::filter_raw_inbound, info::filter_raw_outbound,
    info::local_phy_errors, info::overrun_errors,     info::multicast_pkey_trap_suppression,
};

enum class Role : u8 { ca_port, external_port, base_port_0, enhanced_port_0 };

// What a Set would make of the link's settings. `bad`: it asks for what the port can't.
struct Wanted {
  u16 speeds;
  u8 widths;
  bool bad = false;
};

// What the observers see of it, beside the states.
struct Seen {
  u16 lid;
  u8 lmc;
  u16 sm_lid;
  u8 sm_sl;
  u8 mtu;
  u64 gid_prefix;
  friend bool operator==(const Seen&, const Seen&) = default;
};

class PortInfoSet {
 public:
  PortInfoSet(const SmaCall& call, Port& port) : call_(call), world_(call.world), port_(port), role_(role_of()) {}

  MadStatus run() {
    if (role_ == Role::ca_port && &port_ != &call_.port) return MadStatus::bad_value;
    const bool fine = (!addressed() || addresses_fit()) && (!linked() || link_fits()) &&
                      (role_ != Role::enhanced_port_0 || state_fits(static_cast<u8>(field(info::port_state))));
    if (!fine) return MadStatus::bad_value;
    const Post::Hold hold(world_.post);
    const Seen before = seen();
    if (addressed()) set_addresses();
    set_others();
    if (linked()) set_link();
    set_state();
    tell(before);
    return MadStatus::ok;
  }

 private:
  [[nodiscard]] u64 field(wire::Field which) const { return wire::get(call_.data, which); }

  [[nodiscard]] Role role_of() const {
    if (!call_.node.sw) return Role::ca_port;
    if (port_.ref.port != 0) return Role::external_port;
    return call_.node.sw->enhanced ? Role::enhanced_port_0 : Role::base_port_0;
  }
  // LID, M_Key and so on belong to CA ports and port 0; states and speeds to what has a cable.
  [[nodiscard]] bool addressed() const { return role_ != Role::external_port; }
  [[nodiscard]] bool linked() const { return role_ == Role::ca_port || role_ == Role::external_port; }

  [[nodiscard]] Seen seen() const {
    return {port_.lid, port_.lmc, port_.sm_lid, port_.sm_sl, port_.neighbor_mtu, port_.gid_prefix};
  }

  [[nodiscard]] bool addresses_fit() const {
    const u64 lid = field(info::lid);
    const u64 sm_lid = field(info::sm_lid);
    const u64 lmc = field(info::lmc);
    if (lid >= wire::first_multicast_lid || sm_lid >= wire::first_multicast_lid) return false;
    if (lid == 0 && port_.lid != 0) return false;
    if (lid + (u64{1} << lmc) > wire::first_multicast_lid) return false;
    return role_ != Role::base_port_0 || lmc == 0;
  }

  [[nodiscard]] bool link_fits() const {
    const u64 state = field(info::port_state);
    const u64 physical = field(info::physical_state);
    const u64 down = field(info::link_down_default_state);
    const u64 mtu = field(info::neighbor_mtu);
    const u64 vls = field(info::operational_vls);
    if (state == static_cast<u8>(PortState::init) || state > static_cast<u8>(PortState::active)) return false;
    if (physical > static_cast<u8>(PhysicalState::disabled)) return false;
    if (down > static_cast<u8>(PhysicalState::polling) || mtu > port_.mtu_cap || vls > vl_cap) return false;
    return !wanted().bad && state_fits(static_cast<u8>(state));
  }

  [[nodiscard]] bool state_fits(u8 state) const {
    if (state < static_cast<u8>(PortState::armed)) return true;
    const auto now = static_cast<u8>(port_.state);
    return now == state || (now == state - 1 && port_.state != PortState::down);
  }

  [[nodiscard]] Wanted wanted() const {
    Wanted want{port_.speeds_enabled, port_.widths_enabled};
    if (const auto width = static_cast<u8>(field(info::link_width_enabled)); width == all_supported_widths)
      want.widths = port_.widths_supported;
    else if (width != no_change)
      want = {want.speeds, width, (width & ~port_.widths_supported) != 0};
    const u8 can = plain_part(port_.speeds_supported);
    if (const auto speed = static_cast<u8>(field(info::link_speed_enabled)); speed == all_supported_speeds)
      replace(want, plain_speeds, can, can);
    else if (speed != no_change)
      replace(want, plain_speeds, speed, can);
    if (call_.modifier & info::sm_supports_ext_speeds) want_extended(want);
    return want;
  }

  void want_extended(Wanted& want) const {
    const u16 can = port_.speeds_supported;
    const auto speed = static_cast<u8>(field(info::link_speed_ext_enabled));
    const auto speed2 = static_cast<u8>(field(info::link_speed_ext2_enabled));
    if (speed == info::ext_speeds_off)
      want.speeds &= static_cast<u16>(~(extended_speeds | extended2_speeds));
    else if (speed == info::ext_speeds_all)
      replace(want, extended_speeds, can & extended_speeds, can);
    else if (speed != no_change)
      replace(want, extended_speeds, speed << extended_shift, can);
    if (speed2 != no_change) replace(want, extended2_speeds, speed2 << extended2_shift, can);
  }

  static void replace(Wanted& want, u16 group, u32 speeds, u16 can) {
    want.bad |= (speeds & ~u32{can}) != 0;
    want.speeds = static_cast<u16>((want.speeds & ~group) | speeds);
  }

  void set_addresses() {
    port_.lid = static_cast<u16>(field(info::lid));
    port_.lmc = static_cast<u8>(field(info::lmc));
    port_.sm_lid = static_cast<u16>(field(info::sm_lid));
    port_.sm_sl = static_cast<u8>(field(info::sm_sl));
    port_.gid_prefix = field(info::gid_prefix);
    port_.m_key = field(info::m_key);
    port_.m_key_protect = static_cast<u8>(field(info::m_key_protect_bits));
    port_.m_key_lease = static_cast<u16>(field(info::m_key_lease_period));
    port_.subnet_timeout = static_cast<u8>(field(info::subnet_timeout));
    if (field(info::m_key_violations) == 0) port_.m_key_violations = 0;
  }

  void set_others() {
    for (const wire::Field free : free_fields) wire::set(port_.settings, free, field(free));
    if (field(info::p_key_violations) == 0) port_.p_key_violations = 0;
    if (field(info::q_key_violations) == 0) port_.q_key_violations = 0;
    if (role_ != Role::external_port) return;
    const bool in = field(info::enforce_inbound) != 0;
    const bool out = field(info::enforce_outbound) != 0;
    if (in == port_.enforce_in && out == port_.enforce_out) return;
    port_.enforce_in = in;
    port_.enforce_out = out;
    world_.observer.routes_changed(port_.ref.node);
  }

  void set_link() {
    if (const u64 down = field(info::link_down_default_state)) port_.link_down_default = static_cast<u8>(down);
    if (const u64 mtu = field(info::neighbor_mtu)) port_.neighbor_mtu = static_cast<u8>(mtu);
    if (const u64 vls = field(info::operational_vls)) port_.operational_vls = static_cast<u8>(vls);
    set_enabled();
    if (const u64 physical = field(info::physical_state))
      command_physical(world_, port_, static_cast<PhysicalState>(physical));
  }

  void set_state() {
    const auto state = static_cast<PortState>(field(info::port_state));
    if (role_ == Role::base_port_0 || state < PortState::down) return;
    const bool bounced = field(info::physical_state) != no_change;  // by that, and may be training already
    if (state == PortState::down && linked() && !bounced) command_down(world_, port_);
    if (state >= PortState::armed) (void)command_state(world_, port_, state);  // checked; it may be down by now
  }

  // It holds from the next training on, which may be now, if the link waits for it.
  void set_enabled() {
    const Wanted want = wanted();
    const u16 flags = (want.speeds != port_.speeds_enabled ? wire::local_change::link_speed_enabled : 0) |
                      (want.widths != port_.widths_enabled ? wire::local_change::link_width_enabled : 0);
    port_.speeds_enabled = want.speeds;
    port_.widths_enabled = want.widths;
    if (!flags) return;
    world_.traps.local_change(port_, flags);
    if (port_.cable != none && port_.state == PortState::down) train(world_, world_.cables[port_.cable]);
  }

  void tell(const Seen& before) {
    if (addressed() && field(info::client_reregister)) world_.observer.reregister(port_.ref);
    if (before != seen()) world_.observer.port_changed(port_.ref);
  }

  const SmaCall& call_;
  World& world_;
  Port& port_;
  Role role_;
};

}  // namespace

MadStatus set_port_info(const SmaCall& call, Port& port) { return PortInfoSet(call, port).run(); }

}  // namespace softib::net
