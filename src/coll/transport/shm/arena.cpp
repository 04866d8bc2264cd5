#include "coll/transport/shm/arena.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/error_text.h"

namespace softib::coll::shm {

namespace {

constexpr u64 page_bytes = 4096;
constexpr u64 huge_bytes = u64{2} << 20;
constexpr u64 least_capacity = u64{64} << 20;

u64 round_up(u64 value, u64 unit) { return (value + unit - 1) / unit * unit; }

u64 machine_memory() { return static_cast<u64>(::sysconf(_SC_PHYS_PAGES)) * static_cast<u64>(::sysconf(_SC_PAGESIZE)); }

// Gets the pages now, when a lack of them is an error and not a signal.
int populate(int fd, std::byte* at, u64 offset, u64 bytes) {
  // Without huge pages it works as well.
  if (bytes >= huge_bytes) ::madvise(at, bytes, MADV_HUGEPAGE);
#ifdef MADV_POPULATE_WRITE
  if (::madvise(at, bytes, MADV_POPULATE_WRITE) == 0) return 0;
  if (errno != EINVAL) return errno;
#endif
  return ::fallocate(fd, 0, static_cast<off_t>(offset), static_cast<off_t>(bytes)) == 0 ? 0 : errno;
}

void give_back(int fd, u64 offset, u64 bytes) {
  ::fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset), static_cast<off_t>(bytes));
}

void add_free(std::map<u64, u64>& free, u64 offset, u64 bytes) {
  auto after = free.lower_bound(offset);
  if (after != free.begin()) {
    const auto before = std::prev(after);
    if (before->first + before->second == offset) {
      offset = before->first;
      bytes += before->second;
      free.erase(before);
    }
  }
  if (after != free.end() && offset + bytes == after->first) {
    bytes += after->second;
    free.erase(after);
  }
  free[offset] = bytes;
}

// The first place that is long enough.
std::optional<u64> take_free(std::map<u64, u64>& free, u64 bytes, u64 alignment) {
  for (const auto& [offset, length] : free) {
    const u64 begin = round_up(offset, alignment);
    const u64 end = offset + length;
    if (begin > end || end - begin < bytes) continue;
    const u64 first = offset;
    free.erase(first);
    if (begin > first) free[first] = begin - first;
    if (begin + bytes < end) free[begin + bytes] = end - begin - bytes;
    return begin;
  }
  return std::nullopt;
}

}  // namespace

Arena::Arena(Fd file, Mapping mapping) : file_(std::move(file)), mapping_(std::move(mapping)) {
  free_[0] = mapping_.size();
}

Outcome<std::shared_ptr<Arena>> Arena::create(u64 capacity) {
  capacity = round_up(capacity ? capacity : machine_memory(), huge_bytes);
  // Limits on address space or file sizes may leave less.
  for (;; capacity = round_up(capacity / 2, huge_bytes)) {
    auto file = make_memory_file("softib-arena", capacity);
    auto mapping = file ? Mapping::of(file->get(), 0, capacity, huge_bytes) : fail(file.error());
    if (mapping) return std::shared_ptr<Arena>(new Arena(std::move(*file), std::move(*mapping)));
    if (capacity <= least_capacity)
      return refuse(Code::system_error, fmt::format("no memory to share: {}", error_text(mapping.error())));
  }
}

Outcome<void*> Arena::allocate(u64 bytes) {
  const std::lock_guard guard(lock_);
  if (bytes > capacity()) return refuse(Code::system_error, fmt::format("{} bytes are more than the machine's", bytes));
  const u64 length = round_up(std::max<u64>(bytes, 1), page_bytes);
  const auto offset = take_free(free_, length, length >= huge_bytes ? huge_bytes : page_bytes);
  if (!offset) return refuse(Code::system_error, fmt::format("no room for {} bytes of shared memory", bytes));
  std::byte* at = mapping_.data() + *offset;
  if (const int error = populate(file_.get(), at, *offset, length)) {
    give_back(file_.get(), *offset, length);
    add_free(free_, *offset, length);
    return refuse(Code::system_error, fmt::format("no memory for {} bytes: {}", bytes, error_text(error)));
  }
  blocks_[*offset] = length;
  return at;
}

bool Arena::free(void* memory) {
  const std::lock_guard guard(lock_);
  const u64 offset = reinterpret_cast<u64>(memory) - reinterpret_cast<u64>(mapping_.data());
  const auto block = blocks_.find(offset);
  if (block == blocks_.end()) return false;
  give_back(file_.get(), offset, block->second);
  if (is_detached(offset, block->second))
    ::mmap(memory, block->second, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  else
    add_free(free_, offset, block->second);
  blocks_.erase(block);
  return true;
}

void Arena::detach(void* memory, u64 bytes) {
  const std::lock_guard guard(lock_);
  const u64 offset = reinterpret_cast<u64>(memory) - reinterpret_cast<u64>(mapping_.data());
  const u64 first = offset / page_bytes * page_bytes;
  const u64 length = round_up(offset + bytes, page_bytes) - first;
  std::byte* target = mapping_.data() + first;
  void* pages = ::mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED) return;
  std::memcpy(pages, target, length);
  if (::mremap(pages, length, length, MREMAP_MAYMOVE | MREMAP_FIXED, target) == MAP_FAILED)
    ::munmap(pages, length);
  else
    detached_[first] = length;
}

bool Arena::is_detached(u64 offset, u64 bytes) const {
  return std::any_of(detached_.begin(), detached_.end(), [&](const auto& part) {
    return part.first < offset + bytes && offset < part.first + part.second;
  });
}

std::optional<u64> Arena::place_of(const void* memory, u64 bytes) const {
  const u64 offset = reinterpret_cast<u64>(memory) - reinterpret_cast<u64>(mapping_.data());
  if (offset >= mapping_.size() || bytes > mapping_.size() - offset) return std::nullopt;
  const std::lock_guard guard(lock_);
  auto block = blocks_.upper_bound(offset);
  if (block == blocks_.begin()) return std::nullopt;
  --block;
  if (offset + bytes > block->first + block->second || is_detached(offset, bytes)) return std::nullopt;
  return offset;
}

u64 Arena::allocated() const {
  const std::lock_guard guard(lock_);
  u64 sum = 0;
  for (const auto& [offset, bytes] : blocks_) sum += bytes;
  return sum;
}

std::optional<PeerArena> PeerArena::of(Fd file) {
  const auto size = sealed_size(file.get());
  if (!size) return std::nullopt;
  PeerArena arena;
  arena.file_ = std::move(file);
  arena.size_ = *size;
  return arena;
}

std::byte* PeerArena::at(u64 place, u64 bytes) {
  if (place > size_ || bytes > size_ - place) return nullptr;
  const u64 end = place + bytes;
  if (mappings_.empty() || mappings_.back().size() < end)
    if (!map(end)) return nullptr;
  for (u64 window = place / window_bytes; window * window_bytes < end; ++window)
    if (!populated_[window]) populate(window);
  return mappings_.back().data() + place;
}

// What the peer has in use of it; pages where it has nothing would take memory.
void PeerArena::populate(u64 window) {
  populated_[window] = true;
#ifdef MADV_POPULATE_WRITE
  const u64 end = std::min((window + 1) * window_bytes, mappings_.back().size());
  for (u64 at = window * window_bytes; at < end;) {
    const off_t data = ::lseek(file_.get(), static_cast<off_t>(at), SEEK_DATA);
    if (data < 0 || static_cast<u64>(data) >= end) return;
    const off_t hole = ::lseek(file_.get(), data, SEEK_HOLE);
    const u64 stop = std::min(end, hole < 0 ? end : static_cast<u64>(hole));
    ::madvise(mappings_.back().data() + data, stop - static_cast<u64>(data), MADV_POPULATE_WRITE);
    at = stop;
  }
#endif
}

// From the beginning, at least twice as far as before: so there are few mappings, and what earlier ones show stays.
bool PeerArena::map(u64 end) {
  const u64 before = mappings_.empty() ? 0 : mappings_.back().size();
  const u64 wanted = std::min(size_, std::max(round_up(end, huge_bytes), 2 * before));
  auto mapping = Mapping::of(file_.get(), 0, wanted, huge_bytes);
  if (!mapping) return false;
  ::madvise(mapping->data(), wanted, MADV_HUGEPAGE);
  mappings_.push_back(std::move(*mapping));
  populated_.assign(wanted / window_bytes + 1, false);
  return true;
}

}  // namespace softib::coll::shm
