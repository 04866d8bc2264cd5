// Which counter each field of PMA's attributes shows, and which bit of CounterSelect stands for it.
#pragma once

#include <span>

#include "net/pma/monitor.h"

namespace softib::net {

struct CounterRow {
  wire::Field field;
  size_t index;  // in a Tally
  u8 select;     // bit of CounterSelect, those of CounterSelect2 from `second_select` on
};

inline constexpr u8 second_select = 16;

struct CounterSet {
  wire::PerfAttribute attribute;
  Family family;
  wire::Field select2;  // width 0: there is none
  std::span<const CounterRow> rows;

  [[nodiscard]] u64 select_of(std::span<const u8> data) const;
  void write_select(std::span<u8> data, u64 select) const;
};

[[nodiscard]] const CounterSet* counter_set(wire::PerfAttribute attribute);

}  // namespace softib::net
