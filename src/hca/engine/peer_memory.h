// Reaching the memory that memory regions name, in whatever process it lies.
//
// Three ways, same results: plain loads and stores where the owner's page lies in its memory file (mapped here in
// pieces of 1 GiB at first use); process_vm_readv/writev; the agent thread of the owner.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "base/fd.h"
#include "ipc/client.h"
#include "ipc/quiesce.h"
#include "ipc/segment.h"

namespace softib::hca {

// A run of bytes of one memory region, checked against its key; or bytes of this process that need no key (inline
// data, a header). No initialisers: lists of them lie on the fast path's stack.
struct MemoryRef {
  u32 slot;
  u32 generation;
  u64 address;  // in the owner's address space
  u64 length;
  u64 shared_begin;
  u64 shared_end;
  bool may_fault;  // on-demand region: even one's own memory is not touched by plain instructions

  void refer_to_own(u32 own_slot, const void* bytes, u64 count) {
    slot = own_slot;
    generation = 0;
    address = reinterpret_cast<u64>(bytes);
    length = count;
    shared_begin = shared_end = 0;
    may_fault = false;
  }

  // The part of `count` bytes that starts `offset` bytes in.
  [[nodiscard]] MemoryRef part(u64 offset, u64 count) const {
    MemoryRef sub = *this;
    sub.address += offset;
    sub.length = count;
    return sub;
  }
};

class PeerMemory {
 public:
  PeerMemory(ipc::Segment& segment, ipc::Client& client, u32 own_slot, int own_memory_fd);
  ~PeerMemory();
  PeerMemory(const PeerMemory&) = delete;
  PeerMemory& operator=(const PeerMemory&) = delete;

  // A pointer through which all of `ref` can be read and written, or nullptr when it must go by read() and write().
  [[nodiscard]] u8* plain(const MemoryRef& ref) {
    if (ref.address >= ref.shared_begin && ref.address + ref.length <= ref.shared_end) [[likely]]
      return through_file(ref);
    return ref.slot == own_slot_ && !ref.may_fault ? reinterpret_cast<u8*>(ref.address) : nullptr;
  }

  // EFAULT: the owner has no such memory any more. ESRCH: the owner has gone. ETIMEDOUT: it is stopped.
  Result<void> read(const MemoryRef& from, u8* to);
  Result<void> write(const MemoryRef& to, const u8* from);

  // From region to region, the last bytes last.
  Result<void> move(const MemoryRef& to, const MemoryRef& from);

  // An 8-byte atomic at ref.address (aligned): the old value.
  Result<u64> compare_swap(const MemoryRef& ref, u64 compare, u64 swap);
  Result<u64> fetch_add(const MemoryRef& ref, u64 add);

  // Drops the mappings of processes that have died since the last call.
  void forget_the_dead();

  static constexpr u64 chunk_bits = 30;
  static constexpr u64 chunk_size = 1ULL << chunk_bits;

 private:
  static constexpr u64 address_bits = 47;
  static constexpr u64 chunk_count = 1ULL << (address_bits - chunk_bits);

  struct Peer {
    u32 slot;
    u32 generation;
    Fd memory;
    std::atomic<u8*>* chunks;  // chunk_count of them, zero pages until used
    Peer(u32 s, u32 g, Fd m, std::atomic<u8*>* c) : slot(s), generation(g), memory(std::move(m)), chunks(c) {}
    ~Peer();
  };

  u8* through_file(const MemoryRef& ref) {
    u64 offset = ref.address & (chunk_size - 1);
    if (offset + ref.length > chunk_size) [[unlikely]]
      return nullptr;
    Peer* peer = peers_[ref.slot & (ipc::max_processes - 1)].load(std::memory_order_acquire);
    if (!peer || peer->generation != ref.generation) [[unlikely]]
      return map_slow(ref);
    u8* base = peer->chunks[(ref.address >> chunk_bits) & (chunk_count - 1)].load(std::memory_order_acquire);
    return base ? base + offset : map_slow(ref);
  }
  u8* map_slow(const MemoryRef& ref);
  Peer* find_peer(const MemoryRef& ref);
  void retire(Peer* peer);
  void unmap_retired();

  Result<void> move_in_kernel(const MemoryRef& to, const MemoryRef& from);
  [[gnu::noinline]] Result<void> move_bounced(const MemoryRef& to, const MemoryRef& from);
  Result<void> transfer(const MemoryRef& ref, u8* local, bool writing);
  Result<void> transfer_piece(const MemoryRef& ref, u8* local, bool writing);
  Result<void> by_system_call(const MemoryRef& ref, u8* local, bool writing);
  Result<u64> atomic(const MemoryRef& ref, ipc::AgentOp op, u64 first, u64 second);

  ipc::Segment& segment_;
  ipc::Client& client_;
  u32 own_slot_;
  u64 own_pid_namespace_;
  int own_memory_fd_;
  std::atomic<Peer*> peers_[ipc::max_processes] = {};
  std::mutex mutex_;                                          // guards changes of peers_ and chunks
  std::vector<std::pair<Peer*, ipc::LaneSnapshot>> retired_;  // mappings that other threads may still be using
  std::atomic<bool> has_retired_{false};
  std::atomic<u32> seen_death_epoch_;
};

}  // namespace softib::hca
