// What performance management has been told about a port: what its counters stood at when they were reset, whether
// they are stuck, what is being sampled.
#pragma once

#include "net/state.h"
#include "wire/perf_attributes.h"

namespace softib::net {

// Counters that are reset together; the same event may count in more than one.
enum class Family : u8 { plain, extended, details };
inline constexpr size_t family_count = 3;

struct Sampling {
  wire::SampleStatus status = wire::SampleStatus::done;
  u16 tag = 0;
  u32 start = 0;  // ticks
  u32 interval = 0;
  u64 due = 0;  // when the status changes; 0: counted from the next on_time()
  std::array<u16, wire::samples_control::counters> select{};
  std::array<u64, wire::samples_control::counters> values{};  // at the start; then what was counted
};

struct Monitor {
  std::array<Tally, family_count> base{};
  bool stuck = false;
  Tally frozen{};  // what is shown while it is
  Sampling sampling;
};

[[nodiscard]] Monitor& monitor_of(Port& port);
// Since the start, as far as the counter isn't stuck.
[[nodiscard]] u64 counted(const Port& port, size_t index);
// As PMA shows it.
[[nodiscard]] u64 shown(const Port& port, Family family, size_t index);
// From now on it counts from `value`. Stuck ones don't.
void reset(Port& port, Family family, size_t index, u64 value);
void stick(Port& port, bool stuck);
[[nodiscard]] bool stuck(const Port& port);
// Everything reads 0: it has lost its power.
void reset_all(Port& port);

}  // namespace softib::net
