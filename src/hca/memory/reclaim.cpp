// Giving back what the program no longer has.
//
// free() of a large block unmaps it inside the C library, where nobody tells us. So the book is compared with the
// kernel's map: at once for the pages at hand, and for all when much lies on the file that nobody has registered.
#include "hca/memory/process_memory.h"

namespace softib::hca {

namespace {

constexpr AddressRange everything{0, address_space_end};
constexpr u64 worth_a_sweep = u64{64} << 20;
constexpr u64 calls_between_sweeps = 1000;

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

// Asks the kernel which of the places that mremap moved pages to still show them. (The engine's own views of the file
// are no guests; they are not in the book.)
void FileMemory::look_after_guests() {
  if (!book_.has_guests()) return;
  book_.update(everything, [](PageState& state) { state.away = false; });
  book_.for_each(everything, [&](const Segment& segment) {
    if (!segment.state.guest) return;
    book_.update(segment.range, [](PageState& state) { state.guest = false; });
    map_.for_each(segment.range, KernelMap::Only::shared, [&](const Mapping& mapping) {
      if (file_.shows(mapping) && !file_.shows_at_home(mapping)) note_guest(mapping, segment.range);
      return true;
    });
  });
}

void FileMemory::note_guest(const Mapping& mapping, AddressRange range) {
  const AddressRange part = intersect(mapping.range, range);
  const u64 offset = mapping.offset + (part.begin - mapping.range.begin);
  book_.update(part, [](PageState& state) { state.guest = true; });
  book_.update({offset, offset + part.size()}, [](PageState& state) {
    state.away = true;
    if (state.place == Place::own) state.place = Place::detached;
  });
}

// Due when another 64 MiB that nobody has registered have come together, and now and then anyhow; seldom enough to cost
// a small part of the registrations before it.
void FileMemory::sweep_if_due() {
  const u64 unpinned = book_.home_bytes() - book_.pinned_home_bytes();
  const bool often_called = ++calls_since_sweep_ > calls_between_sweeps + book_.runs();
  if (unpinned < sweep_at_ && !often_called) return;
  look_after_guests();
  reconcile(everything);
  release_unpinned(everything);
  calls_since_sweep_ = 0;
  sweep_at_ = book_.home_bytes() - book_.pinned_home_bytes() + worth_a_sweep;
}

}  // namespace softib::hca
