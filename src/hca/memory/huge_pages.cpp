#include "hca/memory/huge_pages.h"

#include <sys/sysinfo.h>

#include <cstdlib>
#include <cstring>
#include <ctime>

#include "hca/memory/file_window.h"
#include "hca/memory/raw.h"

namespace softib::hca {

namespace {

constexpr u64 piece_size = u64{16} << 20;  // and the least that is worth it
constexpr u64 slow_call = 8;  // milliseconds for a piece, which takes one or two when nothing has to be waited for
constexpr u64 pause_after = 10'000;  // milliseconds

u64 now() {
  timespec time{};
  ::clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<u64>(time.tv_sec) * 1000 + static_cast<u64>(time.tv_nsec) / 1'000'000;
}

// Threads of the machine that want to run now, this one among them: the fourth figure, "running/all".
int count_running() {
  const int fd = raw::open("/proc/loadavg", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 1;
  char text[128];
  const long got = raw::read(fd, text, sizeof text - 1);
  raw::close(fd);
  if (got <= 0) return 1;
  text[got] = '\0';
  const char* at = text;
  for (int i = 0; i < 3 && at; ++i) at = std::strchr(at + 1, ' ');
  return at ? std::atoi(at) : 1;
}

AddressRange whole_blocks(AddressRange range) {
  const u64 begin = (range.begin + huge_page_size - 1) & ~(huge_page_size - 1);
  return {begin, std::max(begin, range.end & ~(huge_page_size - 1))};
}

}  // namespace

bool HugePages::worthwhile(AddressRange range) const {
  return supported_ && range.size() >= piece_size && now() >= not_before_ && count_running() <= ::get_nprocs();
}

void HugePages::prepare(const MemoryFile& file, AddressRange range, PageMap& touched) {
  const AddressRange blocks = whole_blocks(range);
  if (!worthwhile(blocks)) return;
  FileWindow window(file.fd(), blocks);
  if (!window) return;
  AddressRange run{blocks.begin, blocks.begin};
  for (u64 block = blocks.begin; block < blocks.end; block += huge_page_size) {
    const AddressRange here{block, block + huge_page_size};
    touched.look(here);
    if (touched.all_touched(here)) {
      run = {run.empty() ? here.begin : run.begin, here.end};
    } else {
      collapse(window, run);
      run = {here.end, here.end};
    }
  }
  collapse(window, run);
}

// In pieces: free memory in small fragments, to be brought together first, shows in the first one already.
void HugePages::collapse(FileWindow& window, AddressRange run) {
  if (run.size() < piece_size) return;
  for (u64 at = run.begin; at < run.end && supported_ && now() >= not_before_; at += piece_size) {
    const AddressRange piece{at, std::min(run.end, at + piece_size)};
    // An empty block of a file can't be made huge; one with a page in it can.
    for (u64 block = piece.begin; block < piece.end; block += huge_page_size) window.fill({block, block + page_size});
    const u64 start = now();
    if (window.make_huge(piece) == EINVAL) supported_ = false;
    if (now() - start > slow_call) not_before_ = now() + pause_after;
  }
}

}  // namespace softib::hca
