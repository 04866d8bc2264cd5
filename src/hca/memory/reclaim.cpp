// Giving back what the program no longer has.
//
// free() of a large block unmaps it inside the C library, where nobody tells us. So the book is compared with the
// kernel's map: at once for the pages at hand, and for all when much lies on the file that nobody has registered.
#include "hca/memory/process_memory.h"

namespace softib::hca {

namespace {

constexpr AddressRange everything{0, address_space_end};
constexpr u64 least_worth_a_sweep = u64{64} << 20;

}  // namespace

// Pages that the book has at home but the kernel does not.
void FileMemory::reconcile(AddressRange range) {
  if (!book_.any(range, Place::home)) return;
  u64 at = range.begin;
  const bool known = map_.for_each(range, KernelMap::Only::shared, [&](const Mapping& mapping) {
    if (!file_.shows_at_home(mapping)) return true;
    if (mapping.range.begin > at) lose({at, mapping.range.begin});
    at = std::max(at, mapping.range.end);
    return true;
  });
  if (known && at < range.end) lose({at, range.end});
}

// While a page is registered, or another mapping shows it, the file keeps it, as hardware would.
void FileMemory::lose(AddressRange range) {
  book_.for_each(range, [&](const Segment& segment) {
    if (segment.state.place != Place::home) return;
    book_.update(segment.range, [](PageState& state) {
      state.place = Place::detached;
      state.on_fork = ForkRule::copy;
    });
  });
  release_unpinned(range);
}

void FileMemory::release_unpinned(AddressRange range) {
  book_.for_each(range, [&](const Segment& segment) {
    const PageState& state = segment.state;
    if (state.place != Place::detached || state.pins != 0 || state.away) return;
    file_.punch(segment.range);
    book_.update(segment.range, [](PageState& gone) { gone.place = Place::own; });
  });
}

// Looks for mappings that show the file at another place than home.
void FileMemory::find_moved_away() {
  if (book_.away_bytes() != 0) book_.update(everything, [](PageState& state) { state.away = false; });
  map_.for_each(everything, KernelMap::Only::shared, [&](const Mapping& mapping) {
    if (!file_.shows(mapping) || file_.shows_at_home(mapping)) return true;
    book_.update({mapping.offset, mapping.offset + mapping.range.size()}, [](PageState& state) {
      state.away = true;
      if (state.place == Place::own) state.place = Place::detached;
    });
    return true;
  });
}

// The threshold follows what is left, so that a sweep costs a small part of the registrations before it.
void FileMemory::sweep_if_due() {
  const u64 unpinned = book_.home_bytes() - book_.pinned_home_bytes();
  if (unpinned < std::max(sweep_at_, least_worth_a_sweep)) return;
  find_moved_away();
  reconcile(everything);
  release_unpinned(everything);
  sweep_at_ = 2 * (book_.home_bytes() - book_.pinned_home_bytes());
}

}  // namespace softib::hca
