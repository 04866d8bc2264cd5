#include "perf/operations.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <ctime>
#include <numeric>

#include "perf/pattern.h"

namespace softib::perf {

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

double processor_seconds() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

// Of the data that timed operations move; no check has it.
constexpr u64 timing_seed = 99;

}  // namespace

std::byte* Operations::input(Placement placement) {
  if (placement == Placement::out_of_place || collective_.in_place() == InPlace::impossible)
    return buffers_.send() + setting_.bytes(options_.unaligned);
  return buffers_.receive() + setting_.bytes(options_.unaligned + setting_.shape.in_place_input * setting_.rank);
}

bool Operations::is_checked(Placement placement) const {
  return placement == Placement::out_of_place || collective_.in_place() == InPlace::checked;
}

std::byte* Operations::output(Placement placement) {
  const u64 own = placement == Placement::in_place ? setting_.shape.in_place_output * setting_.rank : 0;
  return buffers_.receive() + setting_.bytes(options_.unaligned + own);
}

// How many operations of this size the buffers have room for, side by side.
u64 Operations::distinct_places() const {
  const u64 bytes = setting_.bytes(std::max(setting_.shape.sent, setting_.shape.received));
  return bytes == 0 ? 1 : std::max<u64>(1, options_.max_bytes / bytes);
}

// Each operation works on the place behind the one before, so that small ones don't all find their data in the nearest
// cache.
coll::Request Operations::start(Placement placement, u64 number) {
  const u64 bytes = setting_.bytes(std::max(setting_.shape.sent, setting_.shape.received));
  const u64 shift = bytes * (number % distinct_places());
  return must(collective_.start(group_, setting_, input(placement) + shift, output(placement) + shift));
}

void Operations::finish(coll::Request request) { perf::finish(group_, request, options_.timeout); }

void Operations::run_one(Placement placement, u64 number) {
  finish(start(placement, number));
  if (options_.blocking == Blocking::barrier_each) world_.barrier();
}

// Several under way at once, as far as they have places of their own.
void Operations::run_aggregated(Placement placement, u64 first) {
  const bool one_by_one = options_.blocking == Blocking::barrier_each || options_.blocking == Blocking::wait_each;
  std::deque<coll::Request> under_way;
  for (u64 number = first; number < first + options_.aggregated; ++number) {
    if (one_by_one || distinct_places() == 1) {
      run_one(placement, number);
      continue;
    }
    if (under_way.size() == distinct_places()) {
      finish(under_way.front());
      under_way.pop_front();
    }
    under_way.push_back(start(placement, number));
  }
  for (const coll::Request request : under_way) finish(request);
}

void Operations::warm_up() {
  for (u32 number = 0; number < options_.warm_up; ++number) finish(start(Placement::out_of_place, number));
}

Operations::Times Operations::time_all(Placement placement) {
  Times times;
  const bool counts_alone = options_.blocking == Blocking::barrier_outer;
  double alone = 0;
  const auto begin = Clock::now();
  const double processor_begin = processor_seconds();
  for (u64 iteration = 0; iteration < options_.iterations; ++iteration) {
    const auto started = counts_alone || options_.per_iteration ? Clock::now() : begin;
    if (options_.aggregated > 1) {
      run_aggregated(placement, iteration * options_.aggregated);
    } else {
      run_one(placement, iteration);
    }
    if (options_.per_iteration) times.each.push_back(seconds_since(started) / options_.aggregated);
    if (!counts_alone) continue;
    alone += seconds_since(started);
    world_.barrier();
  }
  const double operations = static_cast<double>(options_.iterations) * options_.aggregated;
  times.seconds = (counts_alone ? alone : seconds_since(begin)) / operations;
  times.processor_seconds = (processor_seconds() - processor_begin) / operations;
  return times;
}

double Operations::combined(double mine) {
  const std::vector<double> all = world_.gather(mine);
  switch (options_.average) {
    case Average::rank0:
      return all.front();
    case Average::mean:
      return std::accumulate(all.begin(), all.end(), 0.0) / static_cast<double>(all.size());
    case Average::least:
      return *std::min_element(all.begin(), all.end());
    case Average::most:
      return *std::max_element(all.begin(), all.end());
  }
  return mine;
}

// Of each process its slowest rank, and of all processes the slowest.
Iterations Operations::gathered(const std::vector<double>& mine) {
  const std::vector<double> all = world_.gather(std::span<const double>(mine));
  const std::size_t count = mine.size();
  const u32 processes = world_.size() / options_.ranks_here();
  Iterations iterations{std::vector<double>(count), {processes, std::vector<double>(count)}};
  for (u32 rank = 0; rank < world_.size(); ++rank)
    for (std::size_t i = 0; i < count; ++i) {
      double& of_process = iterations.by_process[rank / options_.ranks_here()][i];
      of_process = std::max(of_process, all[rank * count + i]);
      iterations.seconds[i] = std::max(iterations.seconds[i], of_process);
    }
  if (processes == 1) iterations.by_process.clear();
  return iterations;
}

void Operations::prepare(Placement placement, u64 seed) {
  setting_.seed = seed;
  const Shape& shape = setting_.shape;
  std::byte* whole = output(Placement::out_of_place);
  std::memset(whole, 0, setting_.bytes(std::max(shape.sent, shape.received)));
  collective_.fill_input(setting_, input(placement));
  if (options_.checks == 0) return;
  std::memcpy(buffers_.expected(), output(placement), setting_.bytes(shape.received));
  collective_.fill_expected(setting_, buffers_.expected());
}

// Wrong elements over all ranks.
u64 Operations::check(Placement placement) {
  prepare(placement, ++repetition_ + timing_seed);
  finish(start(placement, 0));
  const u64 wrong = count_wrong(output(placement), buffers_.expected(), setting_.type, setting_.shape.received);
  if (wrong != 0 && is_checked(placement)) ++failures_;
  const std::vector<u64> all = world_.gather(wrong);
  return std::accumulate(all.begin(), all.end(), u64{0});
}

Measured Operations::measure(Placement placement) {
  if (options_.checks != 0) prepare(placement, timing_seed);
  finish(start(placement, 0));
  world_.barrier();
  const Times times = time_all(placement);
  Measured measured;
  const double seconds = combined(times.seconds);
  measured.seconds = options_.cpu_time ? combined(times.processor_seconds) : seconds;
  measured.bandwidth = collective_.bandwidth(setting_, seconds);
  if (options_.per_iteration) measured.iterations = gathered(times.each);
  u64 wrong = 0;
  for (u32 i = 0; i < options_.checks && wrong == 0; ++i) wrong = check(placement);
  if (options_.checks != 0 && is_checked(placement)) measured.wrong = wrong;
  return measured;
}

}  // namespace softib::perf
