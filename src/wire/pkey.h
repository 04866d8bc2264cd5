// Partition keys: 15 bits name the partition, the highest one says whether the holder is a full member of it.
#pragma once

#include <optional>
#include <span>

#include "base/types.h"

namespace softib::wire {

inline constexpr u16 full_member = 0x8000;
inline constexpr u16 default_key = 0x7fff;

[[nodiscard]] constexpr bool same_partition(u16 a, u16 b) {
  const auto base = [](u16 key) { return static_cast<u16>(key & ~full_member); };
  return base(a) == base(b) && base(a) != 0;
}

// Limited members don't hear each other (IBTA vol. 1, 10.9.3).
[[nodiscard]] constexpr bool keys_match(u16 a, u16 b) { return same_partition(a, b) && ((a | b) & full_member); }

// Where the table has the packet's partition: as a full member if it can. An answer goes out with that entry, not with
// the key that came: what a limited member asks has to be answered by a full one.
[[nodiscard]] inline std::optional<u16> place_of_key(std::span<const u16> table, u16 pkey) {
  std::optional<u16> found;
  for (size_t i = 0; i < table.size(); ++i) {
    if (!same_partition(table[i], pkey)) continue;
    if (table[i] & full_member) return static_cast<u16>(i);
    if (!found) found = static_cast<u16>(i);
  }
  return found;
}

[[nodiscard]] inline u16 key_to_answer_with(std::span<const u16> table, u16 pkey) {
  const auto place = place_of_key(table, pkey);
  return place ? table[*place] : pkey;
}

}  // namespace softib::wire
