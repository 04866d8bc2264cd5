#include "hca/memory/process_memory.h"

#include <unistd.h>

#include "hca/memory/raw.h"

namespace softib::hca {

Result<std::unique_ptr<ProcessMemory>> ProcessMemory::create() {
  if (::sysconf(_SC_PAGESIZE) != static_cast<long>(page_size)) return fail(ENOTSUP);
  auto file = MemoryFile::create();
  if (!file) return fail(file.error());
  std::unique_ptr<ProcessMemory> memory(new FileMemory(std::move(*file)));
  if (!memory) return fail(ENOMEM);
  return memory;
}

void* FileMemory::operator new(size_t size) noexcept {
  void* place = raw::map(0, page_ceiling(size), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS);
  return place == MAP_FAILED ? nullptr : place;
}

void FileMemory::operator delete(void* object) noexcept {
  raw::unmap(reinterpret_cast<u64>(object), page_ceiling(sizeof(FileMemory)));
}

ProcessMemory::Usage FileMemory::usage() const {
  std::lock_guard guard(mutex_);
  return {book_.home_bytes(), book_.pinned_home_bytes(), file_.allocated_bytes(), book_.runs()};
}

bool FileMemory::holds(const void* address, u64 length) const {
  if (!used_.load(std::memory_order_acquire)) return false;
  const u64 begin = reinterpret_cast<u64>(address);
  std::lock_guard guard(mutex_);
  return book_.any({begin, begin + length}, Place::home);
}

void FileMemory::before_fork() { fork_.begin(used_.load(std::memory_order_acquire)); }

void FileMemory::after_fork_in_parent() {
  const int error = errno;  // of a fork that failed
  fork_.end_in_parent();
  errno = error;
}

// mutex_ may be held by a thread that does not exist here, and the book be half changed; neither is looked at again.
void FileMemory::after_fork_in_child() {
  fork_.end_in_child(file_);
  map_.abandon();
  hold_.close();
}

}  // namespace softib::hca
