// What can be seen of a schedule without running it.
#include <algorithm>
#include <tuple>

#include "simulator.h"

namespace softib::coll::test {

namespace {

// Words that a step reads or writes: of the rank's memory, or of the lane's scratch.
struct Access {
  bool scratch = false;
  u64 begin = 0, end = 0;
  bool writes = false;
  const Step* step = nullptr;

  [[nodiscard]] bool overlaps(const Access& other) const {
    return scratch == other.scratch && begin < other.end && other.begin < end;
  }
  [[nodiscard]] bool same_place(const Access& other) const {
    return scratch == other.scratch && begin == other.begin && end == other.end;
  }
};

Access access_to(const Memory& memory, const Step& step, Span span, bool writes) {
  const u64 base = span.buffer == Buffer::scratch ? 0
                   : span.buffer == Buffer::input ? memory.input_at
                                                  : memory.output_at;
  return {span.buffer == Buffer::scratch, base + span.offset, base + span.end(), writes, &step};
}

std::vector<Access> accesses_of(const Memory& memory, const Schedule& schedule, const Step& step) {
  std::vector<Access> all;
  const auto reads = [&](Span span) { all.push_back(access_to(memory, step, span, false)); };
  if (step.kind != Kind::receive && step.kind != Kind::reduce) reads(step.from);
  for (const Span& operand : schedule.operands_of(step)) reads(operand);
  if (step.kind != Kind::send) all.push_back(access_to(memory, step, step.to, true));
  return all;
}

std::string bounds_fault(const Rank& rank, const Schedule& schedule, const Step& step) {
  const auto size = [&](Span span) {
    return span.buffer == Buffer::scratch ? schedule.scratch
           : span.buffer == Buffer::input ? rank.memory.input_size
                                          : rank.memory.output_size;
  };
  const bool sends = step.kind == Kind::send;
  const bool receives = step.kind == Kind::receive;
  const Span main = sends ? step.from : step.to;
  std::vector<Span> spans{main};
  if (!sends && !receives && step.kind != Kind::reduce) spans.push_back(step.from);
  for (const Span& operand : schedule.operands_of(step)) spans.push_back(operand);
  for (const Span& span : spans) {
    if (span.end() > size(span)) return "out of bounds";
    const bool gives_nothing = step.kind == Kind::aggregate && span.count == 0;
    if (span.count != main.count && !gives_nothing) return "spans of different counts";
  }
  if (step.kind == Kind::reduce && step.operand_count == 0) return "nothing to combine";
  return {};
}

// A step may write just what it reads itself, but nothing of others. With accesses in the order of places, only those
// that begin before one's end can be in its way.
std::string round_fault(std::vector<Access>& all) {
  std::sort(all.begin(), all.end(), [](const Access& a, const Access& b) {
    return std::tie(a.scratch, a.begin) < std::tie(b.scratch, b.begin);
  });
  for (auto a = all.begin(); a != all.end(); ++a)
    for (auto b = a + 1; b != all.end() && b->scratch == a->scratch && b->begin < a->end; ++b) {
      if ((!a->writes && !b->writes) || !a->overlaps(*b)) continue;
      const bool own = a->step == b->step && a->same_place(*b) && a->step->kind != Kind::copy;
      if (!own) return "a step writes what another step of its round needs";
    }
  return {};
}

// How many steps touch each word of scratch.
std::vector<u32> touches_of(const Memory& memory, const Schedule& schedule) {
  std::vector<u32> touches(schedule.scratch);
  for (const Step& step : schedule.steps)
    for (const Access& access : accesses_of(memory, schedule, step))
      for (u64 word = access.begin; access.scratch && word < access.end; ++word) ++touches[word];
  return touches;
}

// Lent memory is read once, by a reduce of the next round, and touched by nothing else but its receive.
std::string lending_fault(const Schedule& schedule, std::size_t round, const Step& lent,
                          const std::vector<u32>& touches) {
  if (lent.to.buffer != Buffer::scratch) return "lent memory outside scratch";
  for (u64 word = lent.to.offset; word < lent.to.end(); ++word)
    if (touches[word] != 2) return "lent memory is not read once";
  if (round + 1 == schedule.rounds()) return "lent memory is not read";
  for (const Step& step : schedule.round(round + 1)) {
    const auto operands = schedule.operands_of(step);
    if (std::find(operands.begin(), operands.end(), lent.to) != operands.end()) return {};
  }
  return "lent memory is used in another way";
}

std::string bounds_faults(const Rank& rank, const Schedule& schedule) {
  for (const Step& step : schedule.steps) {
    const std::string fault = bounds_fault(rank, schedule, step);
    if (!fault.empty()) return fault;
  }
  return {};
}

std::string lane_fault(const Rank& rank, const Schedule& schedule) {
  const std::string bounds = bounds_faults(rank, schedule);
  if (!bounds.empty()) return bounds;
  const std::vector<u32> touches = touches_of(rank.memory, schedule);
  for (std::size_t round = 0; round < schedule.rounds(); ++round) {
    if (schedule.round(round).empty()) return "an empty round";
    std::vector<Access> all;
    for (const Step& step : schedule.round(round)) {
      for (const Access& access : accesses_of(rank.memory, schedule, step)) all.push_back(access);
      if (!step.lend || step.kind != Kind::receive) continue;
      const std::string fault = lending_fault(schedule, round, step, touches);
      if (!fault.empty()) return fault;
    }
    const std::string fault = round_fault(all);
    if (!fault.empty()) return fault;
  }
  return {};
}

// Lanes run at any time to each other, so what one writes no other one may touch.
std::string lanes_fault(const Rank& rank) {
  std::vector<u64> touched(rank.memory.words.size());
  std::vector<u64> written(rank.memory.words.size());
  for (std::size_t lane = 0; lane < rank.lanes.size(); ++lane)
    for (const Step& step : rank.lanes[lane].steps)
      for (const Access& access : accesses_of(rank.memory, rank.lanes[lane], step))
        for (u64 word = access.begin; !access.scratch && word < access.end; ++word) {
          touched[word] |= u64{1} << lane;
          if (access.writes) written[word] |= u64{1} << lane;
        }
  for (std::size_t word = 0; word < touched.size(); ++word)
    if (written[word] != 0 && (touched[word] & (touched[word] - 1)) != 0) return "lanes in each other's way";
  return {};
}

}  // namespace

std::string faults_of(const std::vector<Rank>& ranks) {
  for (std::size_t number = 0; number < ranks.size(); ++number) {
    const Rank& rank = ranks[number];
    std::string fault;
    for (const Schedule& schedule : rank.lanes) {
      fault = lane_fault(rank, schedule);
      if (!fault.empty()) break;
    }
    if (fault.empty()) fault = lanes_fault(rank);
    if (!fault.empty()) return "rank " + std::to_string(number) + ": " + fault;
  }
  return {};
}

}  // namespace softib::coll::test
