#include "hca/memory/page_mover.h"

#include "hca/memory/file_window.h"
#include "hca/memory/raw.h"

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif

namespace softib::hca {

namespace {

constexpr u64 worth_populating = u64{64} << 10;

// pwrite() past RLIMIT_FSIZE raises SIGXFSZ; the limit counts for memory files as well.
bool may_write_to_file() {
  struct rlimit limit {};
  return ::getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur >= address_space_end;
}

bool write_all(int fd, AddressRange range) {
  while (!range.empty()) {
    const long done = raw::write_at(fd, raw::pointer(range.begin), range.size(), range.begin);
    if (done <= 0) return false;
    range.begin += static_cast<u64>(done);
  }
  return true;
}

}  // namespace

u64 PageMover::move(AddressRange range, int protection, WriteHold* hold, bool alone) {
  if (!file_.intact()) return range.begin;
  u64 at = range.begin;
  while (at < range.end) {
    const u64 next = std::min(range.end, (at / step_size + 1) * step_size);
    if (!step({at, next}, protection, hold, alone)) break;
    at = next;
  }
  return at;
}

// A handler of the program on this thread could write between the copy and the exchange, or wait for ever on the
// protection that only we take away.
bool PageMover::step(AddressRange range, int protection, WriteHold* hold, bool alone) {
  const raw::SignalsBlocked blocked;
  if (hold) {
    if (!hold->claim(range)) return false;
    if (!alone && !hold->protect(range)) {
      hold->let_go_unchanged(range);
      return false;
    }
  }
  const bool moved = copy_and_replace(range, protection);
  if (hold && moved) hold->let_go_replaced(range);
  if (hold && !moved) hold->let_go_unchanged(range);
  return moved;
}

bool PageMover::copy_and_replace(AddressRange range, int protection) {
  touched_.look(range);
  if (!copy(range) || raw::map(range.begin, range.size(), protection, MAP_SHARED | MAP_FIXED, file_.fd(),
                               range.begin) == MAP_FAILED) {
    file_.punch(range);
    return false;
  }
  populate(range);
  return true;
}

// The 2 MiB blocks that lie wholly in the range and are wholly touched go as huge pages: that is twice as fast as page
// by page, and what was transparent huge pages stays so.
bool PageMover::copy(AddressRange range) {
  while (!range.empty()) {
    const AddressRange huge = huge_part(range);
    const u64 plain_end = huge.empty() ? range.end : huge.begin;
    if (!copy_plain({range.begin, plain_end})) return false;
    if (!huge.empty() && !copy_huge(huge) && !copy_plain(huge)) return false;
    range.begin = std::max(plain_end, huge.end);
  }
  return true;
}

AddressRange PageMover::huge_part(AddressRange range) const {
  if (!huge_pages_) return {};
  u64 at = (range.begin + huge_page_size - 1) & ~(huge_page_size - 1);
  while (at + huge_page_size <= range.end && !touched_.all_touched({at, at + huge_page_size})) at += huge_page_size;
  u64 end = at;
  while (end + huge_page_size <= range.end && touched_.all_touched({end, end + huge_page_size})) end += huge_page_size;
  return end > at ? AddressRange{at, end} : AddressRange{};
}

bool PageMover::copy_huge(AddressRange range) {
  FileWindow window(file_.fd(), range);
  if (!window) return false;
  // An empty block of a file can't be made huge; one with a page in it can.
  for (u64 block = range.begin; block < range.end; block += huge_page_size) window.fill({block, block + page_size});
  if (const int error = window.make_huge(); error != 0) {
    if (error == EINVAL) huge_pages_ = false;
    return false;
  }
  window.fill(range);
  return true;
}

bool PageMover::copy_plain(AddressRange range) {
  const bool by_write = may_write_to_file();
  for (;;) {
    const AddressRange run = touched_.next_touched(range);
    if (run.empty()) return true;
    if (by_write) {
      if (!write_all(file_.fd(), run)) return false;
    } else {
      FileWindow window(file_.fd(), run);
      if (!window) return false;
      window.fill(run);
    }
    range.begin = run.end;
  }
}

// Registered memory is there: as on hardware, the first touch after registration costs no page fault.
void PageMover::populate(AddressRange range) {
  for (;;) {
    const AddressRange run = touched_.next_touched(range);
    if (run.empty()) return;
    if (run.size() >= worth_populating) raw::advise(run.begin, run.size(), MADV_POPULATE_READ);
    range.begin = run.end;
  }
}

}  // namespace softib::hca
