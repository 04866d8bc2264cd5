#include "hca/memory/file_window.h"

#include <cstring>

#include "hca/memory/pages.h"
#include "hca/memory/raw.h"

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

namespace softib::hca {

namespace {

// Not memcpy: a sanitizer would complain about the red zones that it passes through here.
void copy_bytes(u64 to, u64 from, u64 size) {
#if defined(__x86_64__)
  __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(size) : : "memory");
#else
  __builtin_memcpy(raw::pointer(to), raw::pointer(from), size);
#endif
}

}  // namespace

FileWindow::FileWindow(int fd, AddressRange offsets) : offsets_(offsets) {
  // The view is aligned as the file is, else no huge page could be mapped in it.
  const u64 room = offsets.size() + huge_page_size;
  void* place = raw::map(0, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE);
  if (place == MAP_FAILED) return;
  reserved_ = {reinterpret_cast<u64>(place), reinterpret_cast<u64>(place) + room};
  const u64 view = reserved_.begin + ((offsets.begin - reserved_.begin) & (huge_page_size - 1));
  if (raw::map(view, offsets.size(), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, offsets.begin) == MAP_FAILED)
    return;
  raw::advise(view, offsets.size(), MADV_DONTFORK);  // another thread may fork now
  view_ = view;
}

FileWindow::~FileWindow() {
  if (!reserved_.empty()) raw::unmap(reserved_.begin, reserved_.size());
}

void FileWindow::fill(AddressRange range) {
  copy_bytes(view_ + (range.begin - offsets_.begin), range.begin, range.size());
}

int FileWindow::make_huge(AddressRange range) {
  const u64 view = view_ + (range.begin - offsets_.begin);
  return raw::advise(view, range.size(), MADV_COLLAPSE) == 0 ? 0 : errno;
}

}  // namespace softib::hca
