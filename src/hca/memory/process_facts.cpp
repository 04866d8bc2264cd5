#include "hca/memory/process_facts.h"

#include <dlfcn.h>
#include <linux/futex.h>
#include <sys/auxv.h>
#include <sys/stat.h>

#include <cstdlib>
#include <cstring>

#include "hca/memory/pages.h"
#include "hca/memory/raw.h"

namespace softib::hca {

namespace {

constexpr const char* task_directory = "/proc/self/task";

bool overlap(AddressRange a, AddressRange b) { return a.begin < b.end && b.begin < a.end; }

bool contains(AddressRange range, u64 address) { return address >= range.begin && address < range.end; }

// Calls visit(thread id) -> bool (go on?).
template <typename Visit>
void for_each_thread(Visit visit) {
  const int fd = raw::open(task_directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return;
  struct Entry {  // linux_dirent64
    u64 inode;
    i64 offset;
    u16 size;
    u8 type;
    char name[1];
  };
  alignas(8) char buffer[4096];
  for (bool more = true; more;) {
    const long got = ::syscall(SYS_getdents64, fd, buffer, sizeof buffer);
    more = got > 0;
    for (long at = 0; more && at < got;) {
      const auto* entry = reinterpret_cast<const Entry*>(buffer + at);
      if (entry->name[0] != '.') more = visit(static_cast<pid_t>(std::atol(entry->name)));
      at += entry->size;
    }
  }
  raw::close(fd);
}

// Each thread of the C library registers the head of its list of robust locks, which lies in its control block; the
// kernel tells it for any thread, running or not.
u64 control_block(pid_t thread) {
  struct robust_list_head* head = nullptr;
  size_t size = 0;
  if (::syscall(SYS_get_robust_list, thread, &head, &size) != 0) return 0;
  return reinterpret_cast<u64>(head);
}

// The main thread's block stands alone; another's lies at the top of its stack, which goes down to the guard page,
// where the mapping begins. (On AArch64 the thread's variables come above the block, so all of the mapping counts.)
AddressRange thread_memory(pid_t thread, const Mapping& mapping, u64 block) {
  const u64 page = page_floor(block);
  if (thread == ::getpid()) return {page - page_size, page + 2 * page_size};
#if defined(__x86_64__)
  return {mapping.range.begin, page + page_size};
#else
  return mapping.range;
#endif
}

// A coroutine's stack may lie anywhere, even on the heap: keep off what we use of it. In the child of a fork that
// another than the main thread called, this thread counts as the main one but has such a thread's stack.
bool has_current_stack(const Mapping& mapping, AddressRange range) {
  const u64 here = reinterpret_cast<u64>(__builtin_frame_address(0));
  const u64 block = control_block(0);
  if (contains(mapping.range, here) && contains(mapping.range, block))
    return overlap(range, {mapping.range.begin, page_floor(block) + page_size});
  constexpr u64 below = u64{256} << 10;
  constexpr u64 above = u64{64} << 10;
  return overlap(range, {here - below, here + above});
}

u64 kilobytes_after(const char* text, const char* tag) {
  const char* found = std::strstr(text, tag);
  return found ? std::strtoull(found + std::strlen(tag), nullptr, 10) << 10 : 0;
}

}  // namespace

u32 count_threads() {
  struct stat status {};
  if (::syscall(SYS_newfstatat, AT_FDCWD, task_directory, &status, 0) != 0 || status.st_nlink < 3) return 0;
  return static_cast<u32>(status.st_nlink) - 2;
}

HeldMemory held_memory() {
  const int fd = raw::open("/proc/self/status", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return {};
  char text[16384];
  const long got = raw::read(fd, text, sizeof text - 1);
  raw::close(fd);
  if (got <= 0) return {};
  text[got] = '\0';
  HeldMemory held;
  held.known = std::strstr(text, "\nVmPin:") != nullptr;
  held.locked = kilobytes_after(text, "\nVmLck:");
  held.pinned = kilobytes_after(text, "\nVmPin:");
  return held;
}

bool may_pin_unseen() {
  for (const char* name : {"libcuda.so.1", "libhsa-runtime64.so.1", "libze_intel_gpu.so.1"}) {
    if (void* library = ::dlopen(name, RTLD_LAZY | RTLD_NOLOAD)) {
      ::dlclose(library);
      return true;
    }
  }
  return false;
}

bool has_thread_memory(const Mapping& mapping, AddressRange range, bool alone) {
  // The kernel puts the 16 random bytes that it hands to a program at the top of the main stack.
  if (contains(mapping.range, ::getauxval(AT_RANDOM)) || has_current_stack(mapping, range)) return true;
  bool found = false;
  const auto look = [&](pid_t thread) {
    const u64 block = control_block(thread);
    found = block != 0 && contains(mapping.range, block) && overlap(range, thread_memory(thread, mapping, block));
    return !found;
  };
  if (alone)
    look(::getpid());
  else
    for_each_thread(look);
  return found;
}

}  // namespace softib::hca
