// ProcessMemory on a memory file: the parts of this folder put together.
#pragma once

#include <atomic>
#include <mutex>

#include "hca/memory.h"
#include "hca/memory/fork_copy.h"
#include "hca/memory/kernel_map.h"
#include "hca/memory/lock_limit.h"
#include "hca/memory/memory_file.h"
#include "hca/memory/page_book.h"
#include "hca/memory/page_mover.h"

namespace softib::hca {

class FileMemory final : public ProcessMemory {
 public:
  explicit FileMemory(MemoryFile file) : file_(std::move(file)) {}

  // The object lies on pages of its own, which no registration can reach: others would be held off from it while they
  // are moved.
  static void* operator new(size_t size) noexcept;
  static void operator delete(void* object) noexcept;

  [[nodiscard]] int fd() const override { return file_.fd(); }
  Result<AddressRange> share(u64 address, u64 length, bool writable) override;
  void unshare(u64 address, u64 length) override;
  std::optional<int> on_madvise(void* address, size_t length, int advice) override;
  void after_unmap(u64 address, u64 length) override;
  std::optional<void*> on_mremap(void* old_address, size_t old_size, size_t new_size, int flags,
                                 void* new_address) override;
  [[nodiscard]] bool holds(const void* address, u64 length) const override;
  void before_fork() override;
  void after_fork_in_parent() override;
  void after_fork_in_child() override;
  [[nodiscard]] Usage usage() const override;
  void set_own_thread(OwnThread* thread) override { own_thread_ = thread; }
  void set_usual_limit(u64 bytes) override { limit_.set_usual(bytes); }
  Result<void> charge(u64 address, u64 length) override { return limit_.charge(address, length); }
  void uncharge(u64 address, u64 length) override { limit_.uncharge(address, length); }

 private:
  // What one share() learns about the process on its way, once.
  struct Attempt;
  // What one mremap() is to do, in whole pages.
  struct Remap;

  // share.cpp
  Result<bool> check(AddressRange pages, bool writable);
  void settle(Attempt& attempt);
  void settle_mapping(Attempt& attempt, const Mapping& mapping);
  void move_segment(Attempt& attempt, const Mapping& mapping, AddressRange range);
  bool prepare(Attempt& attempt);
  [[nodiscard]] bool room_for(AddressRange range) const;
  void after_move(const Segment& moved, u64 locked_before);
  [[nodiscard]] AddressRange largest_run(AddressRange range) const;

  // reclaim.cpp: each gives back what the kernel's map says is no longer where the book has it.
  void reconcile(AddressRange range);
  void lose(AddressRange range);
  void release_unpinned(AddressRange range);
  void look_after_guests();
  void note_guest(const Mapping& mapping, AddressRange range);
  void sweep_if_due();

  // program_calls.cpp
  int drop_contents(AddressRange range, int advice);
  int set_fork_rule(AddressRange range, int advice, ForkRule rule);
  bool shows_file(AddressRange range);
  bool was_one_mapping(AddressRange range, int& protection);
  std::optional<void*> remap_over_file(const Remap& request);
  void* shrink(const Remap& request);
  void* grow_in_place(const Remap& request);
  void* move_away(const Remap& request);
  bool move_pieces(const Remap& request, u64 target);

  mutable std::mutex mutex_;  // guards what follows, except limit_ and fork_
  MemoryFile file_;
  KernelMap map_;
  PageBook book_;
  PageMover mover_{file_};
  WriteHold hold_;
  u64 sweep_at_ = u64{64} << 20;  // unpinned bytes on the file from which on the next call sweeps
  u64 calls_since_sweep_ = 0;
  std::atomic<bool> used_{false};  // something was ever put on the file
  OwnThread* own_thread_ = nullptr;

  LockLimit limit_;
  ForkRound fork_;
};

}  // namespace softib::hca
