#include <fmt/format.h>

#include <algorithm>

#include "base/durations.h"
#include "sm/manager.h"

namespace softib::sm {

// -- heavy: everything is looked at anew

void Manager::begin_heavy() {
  constexpr u64 gap = 10'000'000;  // a cable that flaps doesn't keep the manager busy for good
  sweep_wanted_ = false;
  earliest_heavy_ = now_ + gap;
  ++activity_;
  phase_ = Phase::discovering;
  discovery_.start();
}

void Manager::discovered() {
  subnet_ = discovery_.finish(mouth_);
  if (subnet_.nodes.empty()) {
    ++failed_sweeps_;
    up_ = false;
    return rest();
  }
  graph_.reset();
  phase_ = Phase::asking;
  ask_rivals();
}

// The next three phases are a master's only.
void Manager::arm() {
  phase_ = Phase::arming;
  lids_.assign(subnet_, options_.lmc);
  port_setup_.arm(subnet_, partitions_, greet_);
}

void Manager::send_tables() {
  phase_ = Phase::routing;
  note_rates(subnet_);
  graph_ = std::make_unique<Graph>(subnet_);
  Routed routed = route(subnet_, options_.routing);
  tables_ = std::move(routed.tables);
  if (!routed.remark.empty() && routed.remark != last_remark_) mouth_.log(routed.remark);
  last_remark_ = routed.remark;
  plan_multicast();
  switch_setup_.send(subnet_, tables_, *multicast_);
}

void Manager::plan_multicast() {
  // A whole block more than needed, so that most new groups don't change the layout.
  const u32 mlids = administration_->highest_mlids() + mlids_in_block;
  multicast_owner_ = std::make_unique<MulticastTables>(subnet_, mlids);
  multicast_ = multicast_owner_.get();
  for (const auto& group : administration_->groups())
    multicast_owner_->plant(subnet_, *graph_, group.mlid, group.members, group.senders);
}

void Manager::replant(u16 mlid) {
  if (!graph_ || !multicast_owner_) return;  // the sweep that is under way does it
  if (mlid - wire::first_multicast_lid >= static_cast<int>(multicast_->blocks() * mlids_in_block)) {
    plan_multicast();
  } else {
    Administration::Group planted;  // stays empty when the group is gone
    for (auto& group : administration_->groups())
      if (group.mlid == mlid) planted = std::move(group);
    multicast_owner_->plant(subnet_, *graph_, mlid, planted.members, planted.senders);
  }
  switch_setup_.send_multicast(subnet_, *multicast_);
  requests_.pump(now_);
}

void Manager::finish() {
  const u32 inactive = count_inactive(subnet_);
  const u32 failures = port_setup_.failures() + switch_setup_.failures() + discovery_.silent();
  const bool was_up = std::exchange(up_, inactive == 0 && failures == 0);
  failed_sweeps_ = up_ ? 0 : failed_sweeps_ + 1;
  greet_ = false;
  if (up_ && !was_up)
    mouth_.log(fmt::format("SUBNET UP: {} switches, {} end ports", subnet_.switches.size(), subnet_.ends.size()));
  if (!up_) mouth_.log(fmt::format("sweep with {} ports not ACTIVE, {} requests that failed", inactive, failures));
  rest();
  next_glance_ = now_;
  announce_changes();
  for (const Rival& rival : rivals_)
    if (rival.state != State::not_active && outranks(rival, self_)) return hand_over(rival);
}

void Manager::announce_changes() {
  std::vector<u64> came, left;
  std::unordered_set<u64> present;
  for (const End end : subnet_.ends) {
    const Port& port = subnet_.port(end);
    if (port.lid == 0) continue;
    present.insert(port.guid);
    if (!known_ports_.contains(port.guid)) came.push_back(port.guid);
  }
  for (const u64 guid : known_ports_)
    if (!present.contains(guid)) left.push_back(guid);
  known_ports_ = std::move(present);
  administration_->subnet_changed(came, left, now_);
}

// -- light: has anything changed?

// Nobody sends a trap when the manager's own cable changes.
void Manager::glance() {
  constexpr u64 often = ns::second;
  next_glance_ = self_.state == State::master ? now_ + often : ~u64{0};
  if (self_.state != State::master || subnet_.nodes.empty() || subnet_.own.port == 0) return;
  const End own = subnet_.own;
  requests_.get(subnet_.path(own), SmpAttribute::port_info, own.port | port_info::sm_supports_ext_speeds,
                [this, own](const wire::Mad* mad) {
                  const auto state = mad ? wire::get(data_of(*mad), port_info::port_state) : 0;
                  const bool linked = state >= static_cast<u8>(LinkState::init);
                  const bool begins = linked && state < static_cast<u8>(LinkState::active);
                  if ((begins && up_) || linked != subnet_.port(own).linked()) sweep_wanted_ = true;
                });
}

void Manager::look() {
  phase_ = Phase::looking;
  looked_changed_ = subnet_.nodes.empty() || failed_sweeps_ != 0;
  ++activity_;
  if (looked_changed_) return;
  for (const u32 number : subnet_.switches) look_at_switch(number);
  rivals_.clear();
  ask_rivals();
}

void Manager::look_at_switch(u32 number) {
  requests_.get(subnet_.nodes[number].ports[0].path, SmpAttribute::switch_info, 0, [this](const wire::Mad* mad) {
    if (!mad || wire::get(data_of(*mad), switch_info::port_state_change) != 0) looked_changed_ = true;
  });
}

void Manager::looked() {
  rest();
  if (looked_changed_) {
    sweep_wanted_ = true;
    return;
  }
  const Verdict verdict = decide(self_, rivals_);
  if (verdict.other) hand_over(*verdict.other);
}

}  // namespace softib::sm
