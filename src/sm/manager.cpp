#include "sm/manager.h"

#include <algorithm>
#include <utility>

#include "base/durations.h"

namespace softib::sm {

std::unique_ptr<SubnetManager> SubnetManager::create(const Options& options, u64 own_guid, Mouth& mouth) {
  return std::make_unique<Manager>(options, own_guid, mouth);
}

Manager::Manager(const Options& options, u64 own_guid, Mouth& mouth)
    : options_(options),
      mouth_(mouth),
      requests_(mouth),
      discovery_(requests_),
      port_setup_(requests_, options_),
      switch_setup_(requests_),
      partitions_(options.only_named_members ? fabric::parse_exact_partitions(options.partitions)
                                             : fabric::parse_partitions(options.partitions)) {
  options_.lmc = std::min<u8>(options_.lmc, 7);
  constexpr u64 never = u64{1} << 62;
  if (options_.sweep_interval_ns == 0) options_.sweep_interval_ns = never;  // no light sweeps
  options_.priority = std::min<u8>(options_.priority, 15);
  self_ = {own_guid, options_.priority, State::discovering};
  const View view{subnet_, tables_, multicast_, partitions_, rivals_, options_, self_, activity_, requests_, mouth_};
  administration_ = Administration::create(view, [this](u16 mlid) { replant(mlid); });
  for (const std::string& error : partitions_.errors) mouth_.log(error);
}

void Manager::received(const wire::Packet& packet, u64 now) {
  now_ = std::max(now_, now);
  inbox_.push_back(packet);
  run();
}

u64 Manager::on_time(u64 now) {
  now_ = std::max(now_, now);
  u64 next = ~u64{0};
  if (!std::exchange(running_, true)) {
    requests_.on_time(now_);
    administration_->on_time(now_);
    running_ = false;
  }
  run();
  if (running_) return now_;
  running_ = true;
  next = std::min(requests_.on_time(now_), administration_->on_time(now_));
  running_ = false;
  if (phase_ == Phase::resting && self_.state != State::not_active)
    next = std::min(next, sweep_wanted_ ? std::max(now_, earliest_heavy_) : std::min(next_look_, next_glance_));
  return inbox_.empty() ? next : now_;
}

// What arrives while something is being sent waits in the inbox, so nothing here is entered twice.
void Manager::run() {
  if (std::exchange(running_, true)) return;
  while (step()) {
  }
  running_ = false;
}

// Does one thing; false if there is nothing to do now.
bool Manager::step() {
  if (!inbox_.empty()) {
    const wire::Packet packet = std::move(inbox_.front());
    inbox_.pop_front();
    handle(packet);
    return true;
  }
  if (graph_ && !later_.empty()) {
    const wire::Packet packet = std::move(later_.front());
    later_.pop_front();
    administer(packet);
    return true;
  }
  requests_.pump(now_);
  if (!inbox_.empty()) return true;
  if (!requests_.idle()) return false;
  if (phase_ != Phase::resting) {
    advance();
    return true;
  }
  begin_timed();
  return phase_ != Phase::resting;
}

void Manager::advance() {
  switch (phase_) {
    case Phase::discovering:
      return discovered();
    case Phase::asking:
      return decided();
    case Phase::arming:
      return send_tables();
    case Phase::routing:
      phase_ = Phase::activating;
      return port_setup_.activate(subnet_);
    case Phase::activating:
      return finish();
    case Phase::looking:
      return looked();
    case Phase::polling:
    case Phase::resting:
      return rest();
  }
}

void Manager::begin_timed() {
  if (self_.state == State::not_active) return;
  if (now_ >= next_glance_) glance();
  if (self_.state == State::standby) {
    sweep_wanted_ = false;
    if (now_ >= next_look_) poll();
  } else if (sweep_wanted_) {
    if (now_ >= earliest_heavy_) begin_heavy();
  } else if (now_ >= next_look_) {
    look();
  }
}

void Manager::rest() {
  phase_ = Phase::resting;
  constexpr u64 soon = ns::second;
  // Without a link there is nobody to send a trap when it comes.
  const bool alone = subnet_.nodes.empty() || (subnet_.own.port != 0 && !subnet_.port(subnet_.own).linked());
  const bool hurry = self_.state != State::standby && (alone || failed_sweeps_ != 0);
  next_look_ = now_ + (hurry ? std::min(soon << std::min(failed_sweeps_, 6U), options_.sweep_interval_ns)
                             : options_.sweep_interval_ns);
}

void Manager::handle(const wire::Packet& packet) {
  const wire::Mad& mad = packet.mad;
  if (wire::get(mad, wire::header::base_version) != 1) return;
  if (packet.destination_qp == 1) return administer(packet);
  if (packet.destination_qp != 0 || !wire::is_smp(mad)) return;
  switch (wire::method_of(mad)) {
    case wire::Method::get_resp:
      return requests_.received(mad);
    case wire::Method::trap:
      return trapped(packet);
    case wire::Method::get:
    case wire::Method::set:
      if (wire::attribute_of(mad) == static_cast<u16>(SmpAttribute::sm_info)) sm_info_asked(packet);
      return;
    default:
      return;
  }
}

void Manager::administer(const wire::Packet& packet) {
  constexpr std::size_t most_later = 4096;
  if (wire::class_of(packet.mad) != wire::MgmtClass::subn_adm || self_.state != State::master) return;
  if (graph_) return administration_->received(packet, now_);
  if (later_.size() < most_later) later_.push_back(packet);
}

}  // namespace softib::sm
