#include <fmt/format.h>

#include <algorithm>

#include "sm/manager.h"

namespace softib::sm {

namespace {

constexpr u32 most_unanswered = 2;  // polls; each is repeated by itself

}  // namespace

void Manager::ask_rivals() {
  rivals_.clear();
  for (const End end : subnet_.ends)
    if (end != subnet_.own && (subnet_.port(end).get(port_info::capability_mask) & port_cap::is_sm)) ask_rival(end);
}

void Manager::ask_rival(End end) {
  requests_.get(subnet_.path(end), SmpAttribute::sm_info, 0, [this, end](const wire::Mad* mad) {
    if (!mad) return;  // it says that a manager is there, but none answers
    Rival rival = parse_rival(data_of(*mad));
    rival.end = end;
    rival.path = subnet_.path(end);
    if (rival.guid != self_.guid) rivals_.push_back(rival);
  });
}

// All is discovered: lead or follow?
void Manager::decided() {
  const Verdict verdict = decide(self_, rivals_);
  if (!verdict.lead) return follow(*verdict.other);
  if (self_.state != State::master) {
    enter(State::master);
    sweep_wanted_ = false;  // this is the sweep
  }
  acknowledge();
  arm();
}

void Manager::enter(State state) {
  if (self_.state == state) return;
  if (state != State::master) {
    later_.clear();
    graph_.reset();
  }
  static constexpr std::string_view names[] = {"NOT ACTIVE", "DISCOVERING", "STANDBY", "MASTER"};
  mouth_.log(fmt::format("entering {} state", names[static_cast<u8>(state)]));
  self_.state = state;
  up_ = false;
  if (state == State::master) {
    greet_ = true;
    lids_ = {};  // those that ports have now are the ones to keep
    switch_setup_.forget_all();
  }
  if (state == State::discovering || state == State::master) sweep_wanted_ = true;
  failed_sweeps_ = 0;
}

void Manager::follow(const Rival& leader) {
  leader_ = leader;
  unanswered_polls_ = 0;
  requests_.forget_all();
  enter(State::standby);
  sweep_wanted_ = false;
  known_ports_.clear();
  rest();
}

// This one leads until the other has taken it. opensm answers and leads, without the ACKNOWLEDGE that is optional; so
// an answer is enough. Should the other not lead after all, polling finds that out.
void Manager::hand_over(const Rival& to) {
  mouth_.log(fmt::format("handing over to the manager at {}", hex(to.guid)));
  leader_ = to;
  requests_.set(to.path, SmpAttribute::sm_info, static_cast<u32>(Control::handover), own_info(),
                [this](const wire::Mad* mad) {
                  if (mad && self_.state == State::master) follow(leader_);
                });
}

void Manager::poll() {
  phase_ = Phase::polling;
  requests_.get(leader_.path, SmpAttribute::sm_info, 0, [this](const wire::Mad* mad) { polled(mad); });
}

void Manager::polled(const wire::Mad* mad) {
  if (self_.state != State::standby) return;
  if (!mad) {
    if (++unanswered_polls_ >= most_unanswered) lost_leader();
    return;
  }
  unanswered_polls_ = 0;
  const Rival heard = parse_rival(data_of(*mad));
  // It leads, or is about to.
  const bool fine = heard.state == State::master || (heard.state == State::discovering && outranks(heard, self_));
  if (!fine) lost_leader();
}

void Manager::lost_leader() {
  mouth_.log(fmt::format("the master at {} is gone", hex(leader_.guid)));
  enter(State::discovering);
}

std::array<u8, 64> Manager::own_info() const {
  std::array<u8, 64> data{};
  wire::set(data, sm_info::guid, self_.guid);
  wire::set(data, sm_info::sm_key, sm_key);
  wire::set(data, sm_info::activity, activity_);
  wire::set(data, sm_info::priority, self_.priority);
  wire::set(data, sm_info::state, static_cast<u8>(self_.state));
  return data;
}

void Manager::sm_info_asked(const wire::Packet& packet) {
  wire::Packet answer = packet;
  wire::Mad& mad = answer.mad;
  const bool is_set = wire::method_of(mad) == wire::Method::set;
  const auto control = static_cast<Control>(wire::get(mad, wire::header::modifier));
  const bool known = control >= Control::handover && control <= Control::discover;
  const auto info = own_info();
  u16 status = is_set && !known ? static_cast<u16>(wire::MadStatus::bad_value) : u16{0};
  if (wire::class_of(mad) == wire::MgmtClass::subn_directed) {
    status |= wire::directed_bit;
  } else {
    wire::turn_round(answer);
  }
  wire::set(mad, wire::header::method, static_cast<u8>(wire::Method::get_resp));
  wire::set(mad, wire::header::status, status);
  std::copy(info.begin(), info.end(), mad.begin() + wire::smp::data_at);
  mouth_.send(answer);
  if (is_set && known) controlled(control, packet);
}

// Tells the manager that handed over, as soon as the way to it is known.
void Manager::acknowledge() {
  const auto end = acknowledge_to_ == 0 ? std::nullopt : subnet_.end_of_guid(acknowledge_to_);
  if (!end) return;
  acknowledge_to_ = 0;
  requests_.set(subnet_.path(*end), SmpAttribute::sm_info, static_cast<u32>(Control::acknowledge), own_info(),
                [](const wire::Mad*) {});
}

void Manager::controlled(Control control, const wire::Packet& packet) {
  const State before = self_.state;
  const State next = after(before, control);
  if (control == Control::handover && next == State::master) {
    requests_.forget_all();
    phase_ = Phase::resting;
    acknowledge_to_ = wire::get(data_of(packet.mad), sm_info::guid);
    enter(State::master);
    sweep_wanted_ = true;
    acknowledge();
    return;
  }
  if (next == before) return;
  if (control == Control::acknowledge) return follow(leader_);
  requests_.forget_all();
  phase_ = Phase::resting;
  enter(next);
  if (next == State::standby) rest();
}

}  // namespace softib::sm
