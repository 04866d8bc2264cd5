// What each descriptor of this process is to us. The look-up is one or two loads, lock-free, and is all that a program
// which never touches RDMA pays.
#pragma once

#include <sys/types.h>

#include <array>
#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <utility>

#include "base/types.h"

namespace softib::shim {

enum class FdClass : u32 {
  none,     // libc's
  command,  // an open /dev/infiniband/uverbsN: CommandFile
  async,    // the read end of a context's async event pipe: AsyncFile
  channel,  // the read end of a completion channel's pipe: ChannelFile
  netlink,  // an RDMA netlink socket: NetlinkFile
  umad,     // an open /dev/infiniband/umadN or issmN: UmadFile
  rdma_cm,  // an open /dev/infiniband/rdma_cm: RdmaCmFile
  counter,  // an open counters/NAME of a port: CounterFile
  own,      // this library's: the program does not know it is there
  received  // came by SCM_RIGHTS or survived a fork: may be a command file, to be found out when it is used
};

// What stands behind one or several descriptors (dup), shared by them.
//
// Calls hold a Pin while they use one. The doorbell does not, since counting would cost as much as the rest of it:
// therefore a file's memory stays readable for a while after its last close (FdTable::retire), and a doorbell that is
// late by that much (a program that closes what another thread is using) finds a context that is gone: EINVAL.
class alignas(16) File {  // room for an FdClass in its address
 public:
  virtual ~File() = default;
  // The last descriptor was closed and no call is inside: gives back what the file holds.
  virtual void closed() {}

 private:
  friend class FdTable;
  u32 references_ = 0;  // entries and pins, under the table's mutex
};

class FdTable {
 public:
  static constexpr u32 chunk_size = 1024;
  static constexpr u32 chunk_count = 1024;
  static constexpr u32 limit = chunk_size * chunk_count;  // descriptors from here on are never ours

  struct Entry {
    FdClass kind = FdClass::none;
    File* file = nullptr;
  };

  // Keeps a file alive through a call.
  class Pin {
   public:
    Pin() = default;
    Pin(FdTable& table, Entry entry) : table_(&table), entry_(entry) {}
    Pin(Pin&& other) noexcept : table_(other.table_), entry_(std::exchange(other.entry_, {})) {}
    Pin& operator=(Pin&&) = delete;
    ~Pin() {
      if (entry_.file) table_->release(entry_.file);
    }
    [[nodiscard]] FdClass kind() const { return entry_.kind; }
    template <typename T>
    [[nodiscard]] T& as() const {
      return static_cast<T&>(*entry_.file);
    }

   private:
    FdTable* table_ = nullptr;
    Entry entry_;
  };

  // `first_use` is called before the first entry is made.
  constexpr explicit FdTable(void (*first_use)() = nullptr) : first_use_(first_use) {}

  [[nodiscard]] Entry find(int fd) const {
    auto index = static_cast<u32>(fd);
    if (index >= limit) [[unlikely]]
      return {};
    const Chunk* chunk = chunks_[index / chunk_size].load(std::memory_order_acquire);
    if (!chunk) [[likely]]
      return {};
    return decode((*chunk)[index % chunk_size].load(std::memory_order_acquire));
  }
  [[nodiscard]] FdClass kind(int fd) const { return find(fd).kind; }

  // The entry, with its file held. Kinds without a file come with none.
  [[nodiscard]] Pin pin(int fd);

  // False: the number is beyond what the table holds, or no memory. The file is then the caller's to drop.
  [[nodiscard]] bool set(int fd, FdClass kind, std::unique_ptr<File>& file);
  void set_own(int fd) { (void)mark(fd, FdClass::own); }
  void set_received(int fd) { (void)mark(fd, FdClass::received); }

  // The descriptor is closed, or a new one has got a number that was closed behind our back.
  void clear(int fd);
  // `to` is a duplicate of `from`. False as with set().
  [[nodiscard]] bool copy(int from, int to);

  // One past the highest descriptor that may have an entry.
  [[nodiscard]] int end() const { return end_.load(std::memory_order_acquire); }

  // Around fork: nobody else is inside while it happens, so the child's copy is whole.
  void lock() {
    mutex_.lock();
    retired_mutex_.lock();
  }
  void unlock() {
    retired_mutex_.unlock();
    mutex_.unlock();
  }
  // In the child, locked: changes an entry and forgets its file without a word (it is the parent's business).
  void forsake(int fd, FdClass now);

 private:
  using Slot = std::atomic<uintptr_t>;
  using Chunk = std::array<Slot, chunk_size>;
  static constexpr uintptr_t kind_mask = 15;
  static constexpr size_t kept_after_close = 64;

  static uintptr_t encode(FdClass kind, File* file) {
    return reinterpret_cast<uintptr_t>(file) | static_cast<uintptr_t>(kind);
  }
  static Entry decode(uintptr_t word) {
    return {static_cast<FdClass>(word & kind_mask), reinterpret_cast<File*>(word & ~kind_mask)};
  }

  Slot* slot(int fd);  // makes the chunk; nullptr: out of range or memory
  Slot* existing(int fd) const;
  bool mark(int fd, FdClass kind);
  File* replace(Slot& slot, FdClass kind, File* file);  // locked; gives a file to retire
  File* drop(File* file);                               // locked; the same
  void release(File* file);
  void retire(File* file);

  std::array<std::atomic<Chunk*>, chunk_count> chunks_{};
  std::atomic<int> end_{0};
  std::atomic<void (*)()> first_use_;
  std::mutex mutex_;
  std::mutex retired_mutex_;
  std::deque<std::unique_ptr<File>>* retired_ = nullptr;
};
static_assert(alignof(File) > static_cast<size_t>(FdClass::received));

// The process's table.
extern FdTable process_table;
inline FdTable& fd_table() { return process_table; }

}  // namespace softib::shim
