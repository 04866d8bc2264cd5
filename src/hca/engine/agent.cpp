#include "hca/engine/agent.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstring>

#include "ipc/shared_lock.h"

namespace softib::hca {

namespace {

enum MailboxState : u32 { idle = 0, posted = 1, answered = 2 };

// A process that is stopped (SIGSTOP, a debugger) is given this long before its memory counts as gone.
constexpr int answer_rounds = 100;
constexpr long round_ns = 50'000'000;

long futex(std::atomic<u32>& word, int operation, u32 value, const timespec* timeout) {
  return ::syscall(SYS_futex, reinterpret_cast<u32*>(&word), operation, value, timeout, nullptr, 0);
}

u8* bounce_of(ipc::Segment& segment, const ipc::AgentMailbox& mailbox) {
  u64 last = ipc::arena_size - ipc::agent_bounce_size;
  return segment.arena + std::min(mailbox.bounce_offset, last);
}

// True when the answer came; the owner's death ends the wait.
bool wait_for_answer(ipc::Process& owner, u32 generation) {
  for (int i = 0; i < answer_rounds; ++i) {
    u32 state = owner.agent.state.load(std::memory_order_acquire);
    if (state == answered) return true;
    timespec limit{0, round_ns};
    futex(owner.agent.state, FUTEX_WAIT, state, &limit);
    if (owner.state.load(std::memory_order_acquire) != ipc::ProcessState::live ||
        owner.generation.load(std::memory_order_relaxed) != generation)
      return false;
  }
  return owner.agent.state.load(std::memory_order_acquire) == answered;
}

// One request of at most agent_bounce_size bytes, with the mailbox locked.
Result<u64> exchange(ipc::Segment& segment, ipc::Process& owner, const MemoryRef& ref, ipc::AgentOp op, u8* local,
                     u64 first, u64 second) {
  ipc::AgentMailbox& mailbox = owner.agent;
  mailbox.op = op;
  mailbox.address = ref.address;
  mailbox.length = ref.length;
  mailbox.operand[0] = first;
  mailbox.operand[1] = second;
  u8* bounce = bounce_of(segment, mailbox);
  if (op == ipc::AgentOp::write) std::memcpy(bounce, local, ref.length);
  mailbox.state.store(posted, std::memory_order_release);
  kick(owner);
  if (!wait_for_answer(owner, ref.generation)) {
    mailbox.state.store(idle, std::memory_order_release);
    return fail(ETIMEDOUT);
  }
  mailbox.state.store(idle, std::memory_order_release);
  if (mailbox.error) return fail(mailbox.error);
  if (op == ipc::AgentOp::read) std::memcpy(local, bounce, ref.length);
  return mailbox.result;
}

// Copies within this process through the kernel, so that an unmapped address gives EFAULT instead of a signal.
int copy_checked(u64 to, u64 from, u64 length) {
  iovec destination{reinterpret_cast<void*>(to), length};
  iovec source{reinterpret_cast<void*>(from), length};
  ssize_t moved = ::process_vm_readv(::getpid(), &destination, 1, &source, 1, 0);
  if (moved == static_cast<ssize_t>(length)) return 0;
  if (moved >= 0 || errno == EFAULT) return EFAULT;
  // Refused as a system call (seccomp): through a pipe, whose read and write check addresses as well.
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) < 0) return errno;
  Fd reader(ends[0]), writer(ends[1]);
  for (u64 done = 0; done < length;) {
    u64 count = std::min<u64>(length - done, PIPE_BUF);
    if (::write(writer.get(), reinterpret_cast<void*>(from + done), count) != static_cast<ssize_t>(count))
      return EFAULT;
    if (::read(reader.get(), reinterpret_cast<void*>(to + done), count) != static_cast<ssize_t>(count)) return EFAULT;
    done += count;
  }
  return 0;
}

// Whether the 8 bytes at `address` can be written; the copy onto itself would not be atomic, so the page is asked for.
bool writable(u64 address) {
  constexpr int populate_write = 23;  // MADV_POPULATE_WRITE
  u64 page = address & ~(ipc::page_size - 1);
  if (::madvise(reinterpret_cast<void*>(page), ipc::page_size, populate_write) == 0) return true;
  if (errno != EINVAL) return false;
  unsigned char resident;  // a kernel before 5.14: mapped at all is the best that can be asked
  return ::mincore(reinterpret_cast<void*>(page), ipc::page_size, &resident) == 0;
}

int atomic_checked(ipc::AgentMailbox& mailbox) {
  if (mailbox.address & 7) return EINVAL;
  if (!writable(mailbox.address)) return EFAULT;
  std::atomic_ref<u64> word(*reinterpret_cast<u64*>(mailbox.address));
  if (mailbox.op == ipc::AgentOp::fetch_add) {
    mailbox.result = word.fetch_add(mailbox.operand[0]);
    return 0;
  }
  u64 expected = mailbox.operand[0];
  word.compare_exchange_strong(expected, mailbox.operand[1]);
  mailbox.result = expected;
  return 0;
}

int carry_out(ipc::Segment& segment, ipc::AgentMailbox& mailbox) {
  u64 bounce = reinterpret_cast<u64>(bounce_of(segment, mailbox));
  u64 length = std::min(mailbox.length, ipc::agent_bounce_size);
  switch (mailbox.op) {
    case ipc::AgentOp::read:
      return copy_checked(bounce, mailbox.address, length);
    case ipc::AgentOp::write:
      return copy_checked(mailbox.address, bounce, length);
    case ipc::AgentOp::compare_swap:
    case ipc::AgentOp::fetch_add:
      return atomic_checked(mailbox);
    case ipc::AgentOp::none:
      break;
  }
  return EINVAL;
}

}  // namespace

void kick(ipc::Process& process) {
  process.kick.fetch_add(1, std::memory_order_acq_rel);
  futex(process.kick, FUTEX_WAKE, INT_MAX, nullptr);
}

Result<u64> ask_agent(ipc::Segment& segment, u32 own_slot, const MemoryRef& ref, ipc::AgentOp op, u8* local,
                      u64 first_operand, u64 second_operand) {
  ipc::Process& owner = segment.processes[ref.slot & (ipc::max_processes - 1)];
  ipc::LockGuard guard(owner.agent.lock, own_slot);
  if (!guard.held()) return fail(ETIMEDOUT);
  bool is_copy = op == ipc::AgentOp::read || op == ipc::AgentOp::write;
  if (!is_copy) return exchange(segment, owner, ref, op, local, first_operand, second_operand);
  for (u64 done = 0; done < ref.length;) {
    u64 count = std::min(ref.length - done, ipc::agent_bounce_size);
    auto moved = exchange(segment, owner, ref.part(done, count), op, local + done, 0, 0);
    if (!moved) return moved;
    done += count;
  }
  return 0;
}

void answer_agent(ipc::Segment& segment, u32 own_slot) {
  ipc::AgentMailbox& mailbox = segment.processes[own_slot].agent;
  if (mailbox.state.load(std::memory_order_acquire) != posted) return;
  mailbox.error = carry_out(segment, mailbox);
  mailbox.state.store(answered, std::memory_order_release);
  futex(mailbox.state, FUTEX_WAKE, INT_MAX, nullptr);
}

}  // namespace softib::hca
