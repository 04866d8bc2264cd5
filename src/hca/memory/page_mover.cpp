#include "hca/memory/page_mover.h"

#include "hca/memory/file_window.h"
#include "hca/memory/raw.h"

namespace softib::hca {

namespace {

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
    const AddressRange stage{at, std::min(range.end, (at / HugePages::most + 1) * HugePages::most)};
    huge_pages_.prepare(file_, stage, touched_);
    while (at < stage.end) {
      const u64 next = std::min(stage.end, (at / step_size + 1) * step_size);
      if (!step({at, next}, protection, hold, alone)) {
        file_.punch({at, stage.end});
        return at;
      }
      at = next;
    }
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
  if (!copy(range)) return false;
  void* place = raw::map(range.begin, range.size(), protection, MAP_SHARED | MAP_FIXED, file_.fd(), range.begin);
  return place != MAP_FAILED;
}

bool PageMover::copy(AddressRange range) {
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

}  // namespace softib::hca
