#include "fabric/faults/plan.h"

#include <algorithm>

namespace softib::fabric {

namespace {

// Between 0 and `count` - 1, the same with every standard library.
u64 below(std::mt19937_64& chance, u64 count) {
  return static_cast<u64>((static_cast<unsigned __int128>(chance()) * count) >> 64);
}

}  // namespace

ScenarioPlan::ScenarioPlan(const Scenario& scenario, const Fabric& fabric, u64 seed)
    : scenario_(scenario), fabric_(fabric) {
  for (u32 step = 0; step < scenario.steps.size(); ++step) {
    constexpr u64 golden = 0x9e37'79b9'7f4a'7c15;
    chance_.emplace_back(seed + (step + 1) * golden);
    const ScenarioStep& what = scenario.steps[step];
    schedule(step, what.at != no_time ? what.at : interval(step));
  }
}

u64 ScenarioPlan::interval(u32 step) {
  const ScenarioStep& what = scenario_.steps[step];
  return what.every_least + below(chance_[step], what.every_most - what.every_least + 1);
}

size_t ScenarioPlan::draw(u32 step, size_t count) { return static_cast<size_t>(below(chance_[step], count)); }

void ScenarioPlan::schedule(u32 step, u64 at) {
  if (at <= std::min(scenario_.until, scenario_.steps[step].until)) due_.push({at, order_++, step, {}});
}

std::optional<PlannedFaults> ScenarioPlan::next() {
  if (due_.empty()) return std::nullopt;
  Due due = due_.top();
  due_.pop();
  if (!due.undo.empty()) return PlannedFaults{due.at, true, std::move(due.undo)};
  const ScenarioStep& step = scenario_.steps[due.step];
  PlannedFaults planned{due.at, false, choose(due.step)};
  if (step.lasting != no_time) {
    std::vector<FaultRequest> undo;
    for (auto fault = planned.faults.rbegin(); fault != planned.faults.rend(); ++fault)
      if (const auto mend = undo_of(*fault)) undo.push_back(*mend);
    if (!undo.empty()) due_.push({due.at + step.lasting, order_++, due.step, std::move(undo)});
  }
  if (step.every_most) schedule(due.step, due.at + interval(due.step));
  return planned;
}

std::vector<FaultRequest> ScenarioPlan::choose(u32 step) {
  std::vector<FaultRequest> chosen;
  for (const FaultLine& line : scenario_.steps[step].faults) choose_line(step, line, chosen);
  return chosen;
}

// One fault, or with "all" one for each that fits.
void ScenarioPlan::choose_line(u32 step, const FaultLine& line, std::vector<FaultRequest>& chosen) {
  std::vector<std::string> words = line.words;
  if (!line.targets.empty() && line.targets[0].pick == FaultLine::Pick::all) {  // no fault has another target then
    for (const std::string& name : line.targets[0].fitting) {
      words[line.targets[0].word] = name;
      if (const auto fault = parse_fault(fabric_, words)) chosen.push_back(*fault);
    }
    return;
  }
  constexpr int most_tries = 32;
  for (int tries = 0; tries < most_tries; ++tries) {
    for (const FaultLine::Target& target : line.targets)
      words[target.word] = target.fitting[draw(step, target.fitting.size())];
    const auto fault = parse_fault(fabric_, words);
    if (!fault || is_pointless(*fault)) continue;
    return chosen.push_back(*fault);
  }
}

// A cable that changes places with itself.
bool ScenarioPlan::is_pointless(const FaultRequest& fault) const {
  if (fault.kind != ipc::FaultKind::swap) return false;
  const auto same = [](const ipc::FaultPlace& place, const CableEnd& end) {
    return (place.is_switch != 0) == (end.kind == EndKind::sw) && place.node == end.node && place.hca == end.hca &&
           place.port == end.port;
  };
  return std::any_of(fabric_.cables.begin(), fabric_.cables.end(), [&](const Cable& cable) {
    return (same(fault.a, cable.a) || same(fault.a, cable.b)) && (same(fault.b, cable.a) || same(fault.b, cable.b));
  });
}

}  // namespace softib::fabric
