#include "hca/memory/page_map.h"

#include "hca/memory/raw.h"

namespace softib::hca {

namespace {

constexpr u64 present = u64{1} << 63;
constexpr u64 swapped = u64{1} << 62;
constexpr u64 mapped_once = u64{1} << 56;

__attribute__((no_sanitize("address", "thread"))) bool is_zero(u64 address) {
  const auto* word = static_cast<const u64*>(raw::pointer(address));
  for (u64 i = 0; i < page_size / sizeof *word; i += 8) {
    u64 any = 0;
    for (u64 k = 0; k < 8; ++k) any |= word[i + k];
    if (any != 0) return false;
  }
  return true;
}

// The kernel's page of zeros stands behind what was only read so far (by WriteHold too); it is never "mapped once".
// Other pages that are not (shared with the child of a fork, say) hold zeros now and then; leaving those out is right
// as well.
bool was_touched(u64 entry, u64 address) {
  if (entry & swapped) return true;
  if (!(entry & present)) return false;
  return (entry & mapped_once) || !is_zero(address);
}

}  // namespace

void PageMap::look(AddressRange range) {
  begin_ = range.begin;
  const int fd = raw::open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
  std::array<u64, 512> entries;
  for (u64 at = range.begin; at < range.end;) {
    const u64 wanted = std::min<u64>((range.end - at) / page_size, entries.size());
    const long got = fd < 0 ? -1 : raw::read_at(fd, entries.data(), wanted * sizeof(u64), at / page_size * sizeof(u64));
    const bool known = got >= static_cast<long>(sizeof(u64));
    const u64 count = known ? static_cast<u64>(got) / sizeof(u64) : wanted;
    for (u64 i = 0; i < count; ++i, at += page_size)
      touched_[(at - begin_) / page_size] = !known || was_touched(entries[i], at);
  }
  if (fd >= 0) raw::close(fd);
}

AddressRange PageMap::next_touched(AddressRange range) const {
  u64 begin = range.begin;
  while (begin < range.end && !touched(begin)) begin += page_size;
  u64 end = begin;
  while (end < range.end && touched(end)) end += page_size;
  return {begin, end};
}

}  // namespace softib::hca
