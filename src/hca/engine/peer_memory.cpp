#include "hca/engine/peer_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "hca/engine/agent.h"
#include "hca/engine/copy.h"
#include "ipc/quiesce.h"

namespace softib::hca {

namespace {

// What one process_vm_* call moves at most: the other side's mmap lock is held meanwhile.
constexpr u64 largest_call = 16ULL << 20;
constexpr u64 bounce_size = 64 * 1024;

void* reserve(u64 size) {
  void* place = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return place == MAP_FAILED ? nullptr : place;
}

u64 own_pid_namespace() {
  struct stat info {};
  return ::stat("/proc/self/ns/pid", &info) == 0 ? info.st_ino : 0;
}

bool is_alive(const ipc::Process& process, u32 generation) {
  return process.state.load(std::memory_order_acquire) == ipc::ProcessState::live &&
         process.generation.load(std::memory_order_relaxed) == generation;
}

}  // namespace

PeerMemory::Peer::~Peer() {
  if (!chunks) return;
  for (u64 i = 0; i < chunk_count; ++i)
    if (u8* base = chunks[i].load(std::memory_order_relaxed)) ::munmap(base, chunk_size);
  ::munmap(static_cast<void*>(chunks), chunk_count * sizeof(*chunks));
}

PeerMemory::PeerMemory(ipc::Segment& segment, ipc::Client& client, u32 own_slot, int own_memory_fd)
    : segment_(segment),
      client_(client),
      own_slot_(own_slot),
      own_pid_namespace_(own_pid_namespace()),
      own_memory_fd_(own_memory_fd),
      seen_death_epoch_(segment.header.death_epoch.load(std::memory_order_relaxed)) {}

PeerMemory::~PeerMemory() {
  for (auto& entry : peers_) delete entry.load(std::memory_order_relaxed);
  for (auto& entry : retired_) delete entry.first;
}

// With mutex_ held.
PeerMemory::Peer* PeerMemory::find_peer(const MemoryRef& ref) {
  auto& entry = peers_[ref.slot & (ipc::max_processes - 1)];
  Peer* peer = entry.load(std::memory_order_relaxed);
  if (peer && peer->generation == ref.generation) return peer;
  Fd memory;
  if (ref.slot == own_slot_) {
    memory = Fd(::fcntl(own_memory_fd_, F_DUPFD_CLOEXEC, 700));
  } else if (!client_.call_fd<ipc::MemoryFd>(0, {ref.slot, ref.generation}, -1, &memory)) {
    return nullptr;
  }
  if (!memory) return nullptr;
  void* table = reserve(chunk_count * sizeof(std::atomic<u8*>));
  if (!table) return nullptr;
  auto* fresh = new Peer(ref.slot, ref.generation, std::move(memory), static_cast<std::atomic<u8*>*>(table));
  entry.store(fresh, std::memory_order_release);
  if (peer) retire(peer);
  return fresh;
}

u8* PeerMemory::map_slow(const MemoryRef& ref) {
  std::lock_guard guard(mutex_);
  Peer* peer = find_peer(ref);
  if (!peer) return nullptr;
  auto& entry = peer->chunks[(ref.address >> chunk_bits) & (chunk_count - 1)];
  u8* base = entry.load(std::memory_order_relaxed);
  if (!base) {
    void* place = ::mmap(nullptr, chunk_size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, peer->memory.get(),
                         static_cast<off_t>(ref.address & ~(chunk_size - 1)));
    if (place == MAP_FAILED) return nullptr;
    ::madvise(place, chunk_size, MADV_DONTFORK);
    ::madvise(place, chunk_size, MADV_DONTDUMP);
    base = static_cast<u8*>(place);
    entry.store(base, std::memory_order_release);
  }
  return base + (ref.address & (chunk_size - 1));
}

// With mutex_ held, `peer` already out of the table. Threads of this process may be copying through its mappings, the
// caller too, so it is unmapped at a later call, once all that were inside have left.
void PeerMemory::retire(Peer* peer) {
  retired_.emplace_back(peer, ipc::LaneSnapshot::take(segment_));
  unmap_retired();
}

// With mutex_ held.
void PeerMemory::unmap_retired() {
  std::erase_if(retired_, [&](auto& entry) {
    if (!entry.second.passed(segment_)) return false;
    delete entry.first;
    return true;
  });
  has_retired_.store(!retired_.empty(), std::memory_order_relaxed);
}

void PeerMemory::forget_the_dead() {
  if (has_retired_.load(std::memory_order_relaxed)) [[unlikely]] {
    std::lock_guard guard(mutex_);
    unmap_retired();
  }
  u32 epoch = segment_.header.death_epoch.load(std::memory_order_acquire);
  if (seen_death_epoch_.load(std::memory_order_relaxed) == epoch || seen_death_epoch_.exchange(epoch) == epoch) return;
  std::lock_guard guard(mutex_);
  u32 limit = std::min(segment_.header.process_limit.load(std::memory_order_relaxed), ipc::max_processes);
  for (u32 slot = 0; slot < limit; ++slot) {
    Peer* peer = peers_[slot].load(std::memory_order_relaxed);
    if (!peer || is_alive(segment_.processes[slot], peer->generation)) continue;
    peers_[slot].store(nullptr, std::memory_order_release);
    retire(peer);
  }
}

// The first failure with EPERM or ENOSYS (seccomp, ptrace scope) settles that this peer is reached by its agent.
Result<void> PeerMemory::by_system_call(const MemoryRef& ref, u8* local, bool writing) {
  const ipc::Process& process = segment_.processes[ref.slot & (ipc::max_processes - 1)];
  if (process.pid_namespace != own_pid_namespace_) return fail(EPERM);
  iovec mine{local, ref.length};
  iovec theirs{reinterpret_cast<void*>(ref.address), ref.length};
  ssize_t moved = writing ? ::process_vm_writev(process.local_pid, &mine, 1, &theirs, 1, 0)
                          : ::process_vm_readv(process.local_pid, &mine, 1, &theirs, 1, 0);
  if (moved < 0) return fail(errno);
  if (static_cast<u64>(moved) != ref.length) return fail(EFAULT);
  // The pid may have passed to another program between the look and the call.
  if (!is_alive(process, ref.generation)) return fail(ESRCH);
  return {};
}

Result<void> PeerMemory::transfer_piece(const MemoryRef& ref, u8* local, bool writing) {
  if (!is_alive(segment_.processes[ref.slot & (ipc::max_processes - 1)], ref.generation)) return fail(ESRCH);
  auto done = by_system_call(ref, local, writing);
  if (done || (done.error() != Errno{EPERM} && done.error() != Errno{ENOSYS})) return done;
  auto answered = ask_agent(segment_, own_slot_, ref, writing ? ipc::AgentOp::write : ipc::AgentOp::read, local, 0, 0);
  if (!answered) return fail(answered.error());
  return {};
}

// Splits into pieces that are either plain as a whole or not shared at all.
Result<void> PeerMemory::transfer(const MemoryRef& ref, u8* local, bool writing) {
  u64 done = 0;
  while (done < ref.length) {
    u64 at = ref.address + done;
    bool shared = at >= ref.shared_begin && at < ref.shared_end;
    u64 end = ref.address + ref.length;
    if (shared)
      end = std::min({end, ref.shared_end, (at | (chunk_size - 1)) + 1});
    else if (at < ref.shared_begin)
      end = std::min(end, ref.shared_begin);
    MemoryRef piece = ref.part(done, std::min(end - at, largest_call));
    if (u8* place = plain(piece)) {
      if (writing)
        copy_message(place, local + done, piece.length, Target::peer);
      else
        std::memcpy(local + done, place, piece.length);
    } else if (auto moved = transfer_piece(piece, local + done, writing); !moved) {
      return moved;
    }
    done += piece.length;
  }
  return {};
}

Result<void> PeerMemory::read(const MemoryRef& from, u8* to) { return transfer(from, to, false); }

Result<void> PeerMemory::write(const MemoryRef& to, const u8* from) {
  return transfer(to, const_cast<u8*>(from), true);
}

Result<void> PeerMemory::move(const MemoryRef& to, const MemoryRef& from) {
  u8* target = plain(to);
  u8* source = plain(from);
  if (target && source) {
    copy_message(target, source, from.length, to.slot == own_slot_ ? Target::own : Target::peer);
    return {};
  }
  if (source) return write(to, source);
  if (target) return read(from, target);
  auto moved = move_in_kernel(to, from);
  if (moved || moved.error() != Errno{EPERM}) return moved;
  return move_bounced(to, from);
}

// On-demand memory of this process to or from a peer's: one system call finds the pages of both, and says EFAULT where
// there are none. EPERM: the peer, or the range, wants another way, and nothing was moved.
Result<void> PeerMemory::move_in_kernel(const MemoryRef& to, const MemoryRef& from) {
  const bool writing = from.slot == own_slot_;
  const MemoryRef& mine = writing ? from : to;
  const MemoryRef& theirs = writing ? to : from;
  const bool touches_file = theirs.shared_begin < theirs.shared_end && theirs.address < theirs.shared_end &&
                            theirs.shared_begin < theirs.address + theirs.length;
  if (mine.slot != own_slot_ || touches_file) return fail(EPERM);
  for (u64 done = 0; done < theirs.length;) {
    const MemoryRef piece = theirs.part(done, std::min(theirs.length - done, largest_call));
    if (!is_alive(segment_.processes[piece.slot & (ipc::max_processes - 1)], piece.generation)) return fail(ESRCH);
    auto moved = by_system_call(piece, reinterpret_cast<u8*>(mine.address + done), writing);
    if (!moved) return moved.error() == Errno{ENOSYS} ? fail(EPERM) : moved;
    done += piece.length;
  }
  return {};
}

// Neither side is plain. Apart from move(), whose stack frame it would make large.
Result<void> PeerMemory::move_bounced(const MemoryRef& to, const MemoryRef& from) {
  u8 bounce[bounce_size];
  for (u64 done = 0; done < from.length;) {
    u64 count = std::min(from.length - done, bounce_size);
    if (auto got = read(from.part(done, count), bounce); !got) return got;
    if (auto put = write(to.part(done, count), bounce); !put) return put;
    done += count;
  }
  return {};
}

Result<u64> PeerMemory::atomic(const MemoryRef& ref, ipc::AgentOp op, u64 first, u64 second) {
  if (!is_alive(segment_.processes[ref.slot & (ipc::max_processes - 1)], ref.generation)) return fail(ESRCH);
  return ask_agent(segment_, own_slot_, ref, op, nullptr, first, second);
}

Result<u64> PeerMemory::compare_swap(const MemoryRef& ref, u64 compare, u64 swap) {
  u8* place = plain(ref);
  if (!place) return atomic(ref, ipc::AgentOp::compare_swap, compare, swap);
  std::atomic_ref<u64>(*reinterpret_cast<u64*>(place)).compare_exchange_strong(compare, swap);
  return compare;  // what was there, whether or not it was swapped
}

Result<u64> PeerMemory::fetch_add(const MemoryRef& ref, u64 add) {
  u8* place = plain(ref);
  if (!place) return atomic(ref, ipc::AgentOp::fetch_add, add, 0);
  return std::atomic_ref<u64>(*reinterpret_cast<u64*>(place)).fetch_add(add);
}

}  // namespace softib::hca
