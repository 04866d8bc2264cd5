// What the program asks of the C library about memory that may be on the file.
#include <cerrno>

#include "hca/memory/process_memory.h"
#include "hca/memory/raw.h"

#ifndef MADV_DONTNEED_LOCKED
#define MADV_DONTNEED_LOCKED 24
#endif
#ifndef MREMAP_DONTUNMAP
#define MREMAP_DONTUNMAP 4
#endif

namespace softib::hca {

namespace {

int refuse(int error) {
  errno = error;
  return -1;
}

void* refuse_map(int error) {
  errno = error;
  return MAP_FAILED;
}

AddressRange whole_pages(const void* address, size_t length) {
  const u64 begin = reinterpret_cast<u64>(address);
  return {begin, begin + page_ceiling(length)};
}

}  // namespace

bool FileMemory::shows_file(AddressRange range) {
  bool found = false;
  map_.for_each(range, KernelMap::Only::shared, [&](const Mapping& mapping) {
    found = file_.shows(mapping);
    return !found;
  });
  return found;
}

// glibc calls madvise inside free() for the arenas of threads and in malloc_trim(), where we don't see it. That is
// harmless: it drops pages there to save memory, and clears what calloc() hands out of them all the same. Allocators
// that rely on zeros (jemalloc, tcmalloc, mimalloc) call it by name, and come here.
std::optional<int> FileMemory::on_madvise(void* address, size_t length, int advice) {
  const AddressRange range = whole_pages(address, length);
  if (range.begin % page_size != 0 || range.end <= range.begin) return std::nullopt;  // the kernel answers
  switch (advice) {
    case MADV_DONTNEED:
    case MADV_DONTNEED_LOCKED:
    case MADV_FREE:
    case MADV_REMOVE: {
      std::lock_guard guard(mutex_);
      if (!book_.file_in_use() || !shows_file(range)) return std::nullopt;
      return drop_contents(range, advice);
    }
    case MADV_DONTFORK:
      return set_fork_rule(range, advice, ForkRule::omit);
    case MADV_WIPEONFORK:
      return set_fork_rule(range, advice, ForkRule::wipe);
    case MADV_DOFORK:
    case MADV_KEEPONFORK:
      return set_fork_rule(range, advice, ForkRule::copy);
    default:
      return std::nullopt;
  }
}

// The kernel would only forget that the pages are mapped here; the program means their contents. The holes read as
// zero for peers too, so both sides go on seeing the same. MADV_FREE leaves open when the pages go: it may be now.
int FileMemory::drop_contents(AddressRange range, int advice) {
  const bool locked_too = advice == MADV_DONTNEED_LOCKED;
  const int result = raw::advise(range.begin, range.size(), locked_too ? advice : MADV_DONTNEED);
  const int error = errno;
  if (result != 0 && error != ENOMEM) return result;  // ENOMEM: part is not mapped, the rest was done
  map_.for_each(range, KernelMap::Only::shared, [&](const Mapping& mapping) {
    if (!file_.shows(mapping)) return true;
    const AddressRange part = intersect(range, mapping.range);
    const u64 offset = mapping.offset + (part.begin - mapping.range.begin);
    file_.punch({offset, offset + part.size()});
    return true;
  });
  errno = error;
  return result;
}

// The rule must outlive the move of the page, so it is noted before there is anything on the file. Pages on the file
// can't be wiped on fork: the kernel says EINVAL, as for any shared mapping.
int FileMemory::set_fork_rule(AddressRange range, int advice, ForkRule rule) {
  std::lock_guard guard(mutex_);
  if (!book_.reserve(updates_per_call)) return refuse(ENOMEM);
  const int result = raw::advise(range.begin, range.size(), advice);
  if (result == 0) book_.update(range, [&](PageState& state) { state.on_fork = rule; });
  return result;
}

void FileMemory::after_unmap(u64 address, u64 length) {
  const auto pages = pages_of(address, length);
  if (!pages || pages->empty()) return;
  const int error = errno;
  std::lock_guard guard(mutex_);
  static_cast<void>(book_.reserve(updates_per_call));
  reconcile(*pages);
  book_.for_each(*pages, [&](const Segment& segment) {
    if (segment.state.place == Place::own && segment.state.on_fork != ForkRule::copy)
      book_.update(segment.range, [](PageState& state) { state.on_fork = ForkRule::copy; });
  });
  // Perhaps that was the other place of pages that mremap had moved away.
  if (book_.has_guests()) {
    look_after_guests();
    release_unpinned({0, address_space_end});
  }
  errno = error;
}

struct FileMemory::Remap {
  AddressRange old;
  u64 new_size;
  int flags;
  u64 new_address;
  int protection;

  [[nodiscard]] bool has(int flag) const { return flags & flag; }
  [[nodiscard]] bool valid() const {
    const bool moves = has(MREMAP_MAYMOVE);
    if (old.begin % page_size != 0 || old.end <= old.begin || new_size == 0) return false;
    if (flags & ~(MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP)) return false;
    if (has(MREMAP_DONTUNMAP) && (!moves || old.size() != new_size)) return false;
    if (!has(MREMAP_FIXED)) return true;
    const AddressRange target{new_address, new_address + new_size};
    return moves && new_address % page_size == 0 && target.end > target.begin && intersect(old, target).empty();
  }
};

// One mapping of the program may be several by now, some on the file and some not, which the kernel would not remap
// together. And it must not let a mapping of the file grow: the next offsets belong to the next addresses.
std::optional<void*> FileMemory::on_mremap(void* old_address, size_t old_size, size_t new_size, int flags,
                                           void* new_address) {
  Remap request{whole_pages(old_address, old_size), page_ceiling(new_size), flags, reinterpret_cast<u64>(new_address),
                0};
  std::lock_guard guard(mutex_);
  if (!book_.file_in_use()) return std::nullopt;
  if (!book_.reserve(updates_per_call)) return refuse_map(ENOMEM);
  if (!shows_file(request.old)) return remap_over_file(request);
  if (!request.valid()) return refuse_map(EINVAL);
  if (!was_one_mapping(request.old, request.protection)) return refuse_map(EFAULT);
  if (request.has(MREMAP_FIXED) || request.has(MREMAP_DONTUNMAP)) return move_away(request);
  if (request.new_size <= request.old.size()) return shrink(request);
  void* grown = grow_in_place(request);
  return grown == MAP_FAILED && request.has(MREMAP_MAYMOVE) ? move_away(request) : grown;
}

// Whether the range is what the program may still take for one mapping; only such can be remapped.
bool FileMemory::was_one_mapping(AddressRange range, int& protection) {
  u64 covered = range.begin;
  map_.for_each(range, [&](const Mapping& mapping) {
    const bool plain = !mapping.shared && mapping.inode == 0;
    if (mapping.range.begin > covered || !(plain || file_.shows(mapping))) return false;
    if (covered != range.begin && mapping.protection() != protection) return false;
    protection = mapping.protection();
    covered = mapping.range.end;
    return true;
  });
  return covered >= range.end;
}

// Memory that is not on the file, moved over some that may be.
std::optional<void*> FileMemory::remap_over_file(const Remap& request) {
  if (!request.has(MREMAP_FIXED)) return std::nullopt;
  void* result =
      raw::remap(request.old.begin, request.old.size(), request.new_size, request.flags, request.new_address);
  if (result != MAP_FAILED) reconcile({request.new_address, request.new_address + request.new_size});
  return result;
}

void* FileMemory::shrink(const Remap& request) {
  const AddressRange rest{request.old.begin + request.new_size, request.old.end};
  if (!rest.empty() && raw::unmap(rest.begin, rest.size()) != 0) return MAP_FAILED;
  reconcile(rest);
  return raw::pointer(request.old.begin);
}

void* FileMemory::grow_in_place(const Remap& request) {
  const u64 more = request.new_size - request.old.size();
  void* got = raw::map(request.old.end, more, request.protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE);
  if (got != MAP_FAILED && got != raw::pointer(request.old.end)) {  // a kernel that knows no NOREPLACE
    raw::unmap(reinterpret_cast<u64>(got), more);
    got = MAP_FAILED;
  }
  if (got == MAP_FAILED) return refuse_map(ENOMEM);
  return raw::pointer(request.old.begin);
}

// Pages keep what is behind them, as with the kernel's own mremap: those on the file stay at their old offset, shown
// at the new address, and a peer that has them registered goes on seeing what the program sees.
void* FileMemory::move_away(const Remap& request) {
  const bool fixed = request.has(MREMAP_FIXED);
  void* target = raw::map(fixed ? request.new_address : 0, request.new_size, request.protection,
                          MAP_PRIVATE | MAP_ANONYMOUS | (fixed ? MAP_FIXED : 0));
  if (target == MAP_FAILED) return MAP_FAILED;
  const u64 begin = reinterpret_cast<u64>(target);
  if (fixed) reconcile({begin, begin + request.new_size});
  if (!move_pieces(request, begin)) return MAP_FAILED;
  if (request.has(MREMAP_DONTUNMAP))
    raw::map(request.old.begin, request.old.size(), request.protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED);
  else
    raw::unmap(request.old.begin, request.old.size());
  book_.update({begin, begin + request.new_size}, [](PageState& state) { state.guest = true; });
  look_after_guests();
  reconcile(request.old);
  return target;
}

bool FileMemory::move_pieces(const Remap& request, u64 target) {
  const u64 size = std::min(request.old.size(), request.new_size);
  const AddressRange moving{request.old.begin, request.old.begin + size};
  bool moved = true;
  map_.for_each(moving, [&](const Mapping& mapping) {
    const AddressRange piece = intersect(mapping.range, moving);
    moved = raw::remap(piece.begin, piece.size(), piece.size(), MREMAP_MAYMOVE | MREMAP_FIXED,
                       target + (piece.begin - moving.begin)) != MAP_FAILED;
    return moved;
  });
  return moved;
}

}  // namespace softib::hca
