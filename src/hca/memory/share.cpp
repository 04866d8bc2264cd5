// share() and unshare(): registering memory.
#include "hca/memory/process_facts.h"
#include "hca/memory/process_memory.h"
#include "hca/memory/raw.h"

namespace softib::hca {

namespace {

// Each run is a kernel mapping, of which a process may have 65,530; the rest is the program's.
constexpr u64 most_runs = 16'000;

bool is_movable(const Mapping& mapping) {
  return !mapping.shared && mapping.inode == 0 && mapping.readable && mapping.writable && !mapping.executable;
}

// The pages that lie in the range with all their bytes.
AddressRange inner_pages(AddressRange range) {
  const u64 begin = page_ceiling(range.begin);
  return {begin, std::max(begin, page_floor(range.end))};
}

}  // namespace

struct FileMemory::Attempt {
  Attempt(AddressRange whole_pages, AddressRange bytes, bool allowed)
      : pages(whole_pages), may_move(bytes), prepared(!allowed) {}
  ~Attempt() {
    if (parked) parked->resume();
  }
  Attempt(const Attempt&) = delete;
  Attempt& operator=(const Attempt&) = delete;

  AddressRange pages;
  AddressRange may_move;  // bytes first, pages once prepared
  bool prepared;
  bool possible = false;
  bool alone = false;           // no other thread
  OwnThread* parked = nullptr;  // the only other one, standing still
  u64 locked = 0;               // bytes that the process has under mlock
  WriteHold* hold = nullptr;

  [[nodiscard]] bool without_writers() const { return alone || parked; }
};

Result<AddressRange> FileMemory::share(u64 address, u64 length, bool writable) {
  const auto pages = pages_of(address, length);
  if (!pages) return fail(pages.error());
  if (length == 0) return AddressRange{address, address};
  std::unique_lock guard(mutex_);
  if (!book_.reserve(updates_per_call)) return fail(ENOMEM);
  sweep_if_due();
  const auto settled = check(*pages, writable);
  if (!settled) return fail(settled.error());
  if (!*settled) {
    guard.unlock();  // what is asked now takes locks of the loader
    const bool may_move = !may_pin_unseen();
    guard.lock();
    Attempt attempt(*pages, {address, address + length}, may_move);
    settle(attempt);
  }
  book_.update(*pages, [](PageState& state) { ++state.pins; });
  return largest_run({address, address + length});
}

void FileMemory::unshare(u64 address, u64 length) {
  const auto pages = pages_of(address, length);
  if (!pages || length == 0) return;
  std::lock_guard guard(mutex_);
  static_cast<void>(book_.reserve(updates_per_call));
  book_.update(*pages, [](PageState& state) {
    if (state.pins > 0) --state.pins;
  });
  reconcile(*pages);
  release_unpinned(*pages);
  sweep_if_due();
}

// EFAULT as get_user_pages gives it; else whether all of the range is on the file already.
Result<bool> FileMemory::check(AddressRange pages, bool writable) {
  u64 covered = pages.begin;
  bool home = true;
  const bool known = map_.for_each(pages, [&](const Mapping& mapping) {
    if (mapping.range.begin > covered || !(writable ? mapping.writable : mapping.readable)) return false;
    home = home && file_.shows_at_home(mapping);
    covered = std::min(pages.end, mapping.range.end);
    return true;
  });
  if (!known) return true;  // no /proc here: nothing is checked, nothing moved
  if (covered != pages.end) return fail(EFAULT);
  return home && book_.all(pages, Place::home);
}

void FileMemory::settle(Attempt& attempt) {
  reconcile(attempt.pages);
  map_.for_each(attempt.pages, [&](const Mapping& mapping) {
    settle_mapping(attempt, mapping);
    return true;
  });
}

// What is registered already and was left where it is stays there: peers may be writing to it by system calls, which
// nothing holds off.
void FileMemory::settle_mapping(Attempt& attempt, const Mapping& mapping) {
  // No file offset stands for what lies above.
  const AddressRange part = intersect(intersect(mapping.range, attempt.pages), {0, address_space_end});
  if (file_.shows_at_home(mapping)) {
    // Also what the C library grew there behind our back.
    book_.update(part, [](PageState& state) { state.place = Place::home; });
    return;
  }
  if (!is_movable(mapping)) return;
  book_.for_each(part, [&](const Segment& segment) {
    const PageState& state = segment.state;
    if (state.place == Place::own && state.pins == 0 && state.on_fork != ForkRule::wipe)
      move_segment(attempt, mapping, segment.range);
  });
}

void FileMemory::move_segment(Attempt& attempt, const Mapping& mapping, AddressRange range) {
  if (!prepare(attempt)) return;
  range = intersect(range, attempt.may_move);
  if (range.empty() || !room_for(range) || has_thread_memory(mapping, range, attempt.alone)) return;
  if (!book_.reserve(updates_per_call)) return;
  const u64 end = mover_.move(range, PROT_READ | PROT_WRITE, attempt.hold, attempt.without_writers());
  if (end == range.begin) return;
  used_.store(true, std::memory_order_release);
  const AddressRange moved{range.begin, end};
  after_move({moved, book_.at(range.begin).state}, attempt.locked);
  book_.update(moved, [](PageState& state) { state.place = Place::home; });
}

// Looks, once per call, at what could be in the way of moving anything.
bool FileMemory::prepare(Attempt& attempt) {
  if (attempt.prepared) return attempt.possible;
  attempt.prepared = true;
  const HeldMemory held = held_memory();
  // Pages pinned for a device stay the device's pages; which they are can't be seen.
  if (!held.known || held.pinned != 0) return false;
  attempt.locked = held.locked;
  const WriteHold::Reach reach = hold_.open();
  const u32 threads = count_threads();
  attempt.alone = threads == 1;
  if (reach == WriteHold::Reach::nobody && threads == 2 && own_thread_ && own_thread_->park())
    attempt.parked = own_thread_;
  if (reach == WriteHold::Reach::nobody && !attempt.without_writers()) return false;
  if (reach != WriteHold::Reach::nobody) attempt.hold = &hold_;
  // A system call of another thread, into a neighbour's bytes on the first or last page, must not fail for our sake.
  const bool all_bytes = attempt.without_writers() || reach == WriteHold::Reach::kernel;
  attempt.may_move = all_bytes ? attempt.pages : inner_pages(attempt.may_move);
  return attempt.possible = true;
}

bool FileMemory::room_for(AddressRange range) const {
  if (book_.runs() < most_runs) return true;
  return book_.at(range.begin - page_size).state.place == Place::home || book_.at(range.end).state.place == Place::home;
}

// The new mapping is to be as the old one was.
void FileMemory::after_move(const Segment& moved, u64 locked_before) {
  if (moved.state.on_fork == ForkRule::omit) raw::advise(moved.range.begin, moved.range.size(), MADV_DONTFORK);
  // Was it locked? Then the process has less locked now.
  if (locked_before != 0 && held_memory().locked < locked_before) raw::lock(moved.range.begin, moved.range.size());
}

AddressRange FileMemory::largest_run(AddressRange range) const {
  AddressRange best{range.begin, range.begin};
  AddressRange run = best;
  book_.for_each(range, [&](const Segment& segment) {
    if (segment.state.place != Place::home) return;
    run = run.end == segment.range.begin ? AddressRange{run.begin, segment.range.end} : segment.range;
    if (run.size() > best.size()) best = run;
  });
  return best;
}

}  // namespace softib::hca
