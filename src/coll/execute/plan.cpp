#include "coll/execute/plan.h"

#include <algorithm>
#include <map>
#include <utility>

#include "coll/execute/run.h"

namespace softib::coll {

namespace {

u32 order_in_round(const Step& step) {
  switch (step.kind) {
    case Kind::send:
      return 0;
    case Kind::receive:
    case Kind::receive_reduce:
    case Kind::aggregate:
      return 1;
    default:
      return 2;
  }
}

void order_rounds(Schedule& schedule) {
  auto begin = schedule.steps.begin();
  for (const u32 end : schedule.round_ends) {
    const auto last = schedule.steps.begin() + end;
    std::stable_sort(begin, last, [](const Step& a, const Step& b) { return order_in_round(a) < order_in_round(b); });
    begin = last;
  }
}

// Lent memory is read in the round after it came, by the one operand that is where it would have been copied to.
void find_lent(PlannedLane& lane) {
  const Schedule& schedule = lane.schedule;
  lane.lent_by.assign(schedule.operands.size(), no_step);
  for (std::size_t round = 1; round < schedule.rounds(); ++round) {
    const std::span<const Step> before = schedule.round(round - 1);
    for (const Step& step : schedule.round(round)) {
      if (step.kind != Kind::reduce) continue;
      for (u32 i = step.first_operand; i < step.first_operand + step.operand_count; ++i) {
        const auto source = std::find_if(before.begin(), before.end(), [&](const Step& receive) {
          return receive.kind == Kind::receive && receive.lend && receive.to == schedule.operands[i];
        });
        if (source != before.end()) lane.lent_by[i] = static_cast<u32>(&*source - schedule.steps.data());
      }
    }
  }
}

void find_pushes(PlannedLane& lane) {
  const Schedule& schedule = lane.schedule;
  for (std::size_t round = 0; round < schedule.rounds(); ++round) {
    const std::span<const Step> steps = schedule.round(round);
    const auto sends = std::count_if(steps.begin(), steps.end(), [](const Step& s) { return order_in_round(s) == 0; });
    const auto receives =
        std::count_if(steps.begin(), steps.end(), [](const Step& s) { return order_in_round(s) == 1; });
    for (const Step& step : steps) lane.pushes.push_back(step.kind == Kind::send && sends <= receives);
  }
}

void count_messages(PlannedLane& lane) {
  std::map<std::pair<bool, u32>, u32> counts;
  for (const Step& step : lane.schedule.steps) {
    const u32 order = order_in_round(step);
    lane.ordinals.push_back(order == 2 ? 0 : ++counts[{order == 0, step.peer}]);
  }
}

void extend(Plan& plan, const Span& span) {
  if (span.buffer == Buffer::scratch) return;
  Stretch& stretch = span.buffer == Buffer::input ? plan.input : plan.output;
  stretch.begin = std::min(stretch.begin, span.offset);
  stretch.end = std::max(stretch.end, span.offset + span.count);
}

// What is received and combined is taken in piece by piece, and needs no place of its own.
void find_stretches(Plan& plan, const Schedule& schedule) {
  for (const Step& step : schedule.steps) {
    if (step.kind == Kind::send) extend(plan, step.from);
    if (step.kind == Kind::receive) extend(plan, step.to);
  }
}

}  // namespace

Plan::Plan() = default;
Plan::~Plan() = default;

std::unique_ptr<Plan> make_plan(const AlgorithmRow& row, const Problem& problem, u32 lanes, u32 window) {
  auto plan = std::make_unique<Plan>();
  plan->collective = row.collective;
  plan->algorithm = row.algorithm;
  for (Schedule& schedule : make_lanes(row, problem, lanes)) {
    PlannedLane& lane = plan->lanes.emplace_back();
    lane.schedule = std::move(schedule);
    order_rounds(lane.schedule);
    find_lent(lane);
    find_pushes(lane);
    count_messages(lane);
    find_stretches(*plan, lane.schedule);
    plan->scratch = std::max(plan->scratch, lane.schedule.scratch);
    plan->steps = std::max(plan->steps, lane.schedule.steps.size());
    for (const Step& step : lane.schedule.steps)
      if (step.kind == Kind::aggregate) plan->aggregating.push_back(static_cast<u32>(plan->lanes.size() - 1));
  }
  plan->window = std::max(1U, std::min(window, static_cast<u32>(plan->lanes.size())));
  return plan;
}

}  // namespace softib::coll
