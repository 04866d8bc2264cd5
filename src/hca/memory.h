// The memory of this process, as far as other processes of the fabric can reach it by plain loads and stores.
//
// Each process has one sparse memory file (memfd). The page at user address A, once shared, lies in that file at
// offset A and is mapped MAP_SHARED over its old place with its contents kept. A peer that maps any part of the file
// so reaches the page without asking where it is, and neighbouring shared pages are one kernel mapping.
#pragma once

#include <memory>
#include <optional>

#include "base/fd.h"
#include "base/types.h"

namespace softib::hca {

// A range of user addresses [begin, end); empty when begin == end.
struct AddressRange {
  u64 begin = 0;
  u64 end = 0;
  [[nodiscard]] u64 size() const { return end - begin; }
  [[nodiscard]] bool empty() const { return begin == end; }
};

// The thread that this library itself has in the process. It touches the program's memory only while it works, so with
// it parked a program of one thread is one of one thread.
class OwnThread {
 public:
  virtual ~OwnThread() = default;
  // True: it exists and stands still until resume(). Gives up rather than wait long: it may be waiting for us.
  [[nodiscard]] virtual bool park() = 0;
  virtual void resume() = 0;
};

class ProcessMemory {
 public:
  // Makes the memory file. ENOMEM, EMFILE.
  static Result<std::unique_ptr<ProcessMemory>> create();
  virtual ~ProcessMemory() = default;

  // The memory file; its size is 2^47, so that no offset of a user page lies past its end.
  [[nodiscard]] virtual int fd() const = 0;

  // Puts the pages under [address, address + length) on the memory file where that is safe, pins them, and gives the
  // largest run of the range that is on it (maybe empty: then everything goes by process_vm_* or the agent).
  // Checks first that the whole range is mapped, and writable if `writable`: EFAULT otherwise, as get_user_pages does.
  // Never moves: file mappings, shared memory of others, hugetlb, device memory, stacks and their guards, pages under
  // userfaultfd, locked-down or read-only mappings. With several threads it moves only when writers can be held off
  // (userfaultfd write-protection).
  virtual Result<AddressRange> share(u64 address, u64 length, bool writable) = 0;

  // Ends one share() of the same range. The pages stay where they are (a later share() costs microseconds); those
  // that the program has unmapped since are given back.
  virtual void unshare(u64 address, u64 length) = 0;

  // What the program asks of the C library about memory that may be shared. Each gives nothing when the range has no
  // shared page (the caller then does the plain call), else 0 or -1 with errno, having done what the call means.
  virtual std::optional<int> on_madvise(void* address, size_t length, int advice) = 0;

  // After the program unmapped or replaced a range (munmap, mmap MAP_FIXED, mremap away): gives back what lay there.
  virtual void after_unmap(u64 address, u64 length) = 0;

  // Around mremap: nothing when no shared page is concerned; else the result (MAP_FAILED with errno).
  virtual std::optional<void*> on_mremap(void* old_address, size_t old_size, size_t new_size, int flags,
                                         void* new_address) = 0;

  // Whether a page of [address, address + length) is on the memory file, as far as noted. For realloc(), which must
  // then copy to a new block instead: glibc grows large blocks by an mremap of its own, and a mapping of the file that
  // grows would show the pages that belong to the next addresses.
  [[nodiscard]] virtual bool holds(const void* address, u64 length) const = 0;

  // Around fork(). The child gets private copies of all shared pages, as they were at the fork, before either side
  // runs on; pages under MADV_DONTFORK are left out of the child as the program asked.
  virtual void before_fork() = 0;
  virtual void after_fork_in_parent() = 0;
  virtual void after_fork_in_child() = 0;

  // Figures for tests and `softib status`.
  struct Usage {
    u64 shared_bytes = 0;  // on the file and mapped
    u64 pinned_bytes = 0;  // of these, under at least one share()
    u64 file_bytes = 0;    // allocated to the file
    u64 pieces = 0;        // separate runs
  };
  [[nodiscard]] virtual Usage usage() const = 0;

  // Before any share(); stays for good. nullptr: there is none.
  virtual void set_own_thread(OwnThread* thread) = 0;

  // What RLIMIT_MEMLOCK stands at where nobody has set one (hca/memory/lock_limit.h).
  virtual void set_usual_limit(u64 bytes) = 0;
  // RLIMIT_MEMLOCK accounting, as the kernel's: pages of all registrations together, CAP_IPC_LOCK exempt.
  // ENOMEM when `length` more would pass the limit.
  virtual Result<void> charge(u64 address, u64 length) = 0;
  virtual void uncharge(u64 address, u64 length) = 0;
};

}  // namespace softib::hca
