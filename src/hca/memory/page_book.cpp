#include "hca/memory/page_book.h"

#include <iterator>

namespace softib::hca {

Segment PageBook::at(u64 address, u64 end) const {
  auto next = starts_.upper_bound(address);
  Segment segment{{address, end}, {}};
  if (next != starts_.begin()) segment.state = std::prev(next)->second;
  if (next != starts_.end()) segment.range.end = std::min(end, next->first);
  return segment;
}

bool PageBook::all(AddressRange range, Place place) const {
  bool result = true;
  for_each(range, [&](const Segment& segment) { result = result && segment.state.place == place; });
  return result;
}

bool PageBook::any(AddressRange range, Place place) const {
  bool result = false;
  for_each(range, [&](const Segment& segment) { result = result || segment.state.place == place; });
  return result;
}

void PageBook::split(u64 address) {
  auto next = starts_.lower_bound(address);
  if (next != starts_.end() && next->first == address) return;
  const PageState state = next == starts_.begin() ? PageState{} : std::prev(next)->second;
  starts_.emplace_hint(next, address, state);
}

void PageBook::join(AddressRange range) {
  auto entry = starts_.find(range.begin);
  PageState before = entry == starts_.begin() ? PageState{} : std::prev(entry)->second;
  while (entry != starts_.end() && entry->first <= range.end) {
    if (entry->second == before) {
      entry = starts_.erase(entry);
    } else {
      before = entry->second;
      ++entry;
    }
  }
}

// A run begins where a home page follows one that isn't; so the page after the range counts too.
void PageBook::count(AddressRange range, int sign) {
  const u64 one = static_cast<u64>(sign);
  auto entry = starts_.find(range.begin);
  bool home_before = entry != starts_.begin() && std::prev(entry)->second.place == Place::home;
  for (;; ++entry) {
    const PageState& state = entry->second;
    const bool home = state.place == Place::home;
    if (home && !home_before) runs_ += one;
    home_before = home;
    if (entry->first == range.end) return;
    const u64 bytes = one * (std::next(entry)->first - entry->first);
    if (home) home_bytes_ += bytes;
    if (home && state.pins != 0) pinned_home_bytes_ += bytes;
    if (state.place == Place::detached) detached_bytes_ += bytes;
    if (state.guest) guest_bytes_ += bytes;
  }
}

}  // namespace softib::hca
