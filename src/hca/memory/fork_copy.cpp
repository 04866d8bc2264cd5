#include "hca/memory/fork_copy.h"

#include <pthread.h>

#include <cstdlib>
#include <ctime>
#include <new>

#include "hca/memory/kernel_map.h"
#include "hca/memory/pages.h"
#include "hca/memory/raw.h"

namespace softib::hca {

namespace {

// There is nobody to tell: fork() has succeeded, and to go on would let two programs write to each other's memory.
[[noreturn]] void give_up() {
  static constexpr char text[] = "softib: no memory for the child's copy of registered memory after fork\n";
  static_cast<void>(raw::write(STDERR_FILENO, text, sizeof text - 1));
  std::abort();
}

void read_all(int fd, u64 address, u64 size, u64 offset) {
  while (size > 0) {
    const long got = raw::read_at(fd, raw::pointer(address), size, offset);
    if (got <= 0) give_up();
    address += static_cast<u64>(got);
    offset += static_cast<u64>(got);
    size -= static_cast<u64>(got);
  }
}

// Copies what the file holds at [offset, offset + size); the holes are zeros already.
void fill_from_file(int fd, u64 address, u64 size, u64 offset) {
  const u64 end = offset + size;
  for (u64 at = offset; at < end;) {
    const long data = raw::seek(fd, at, SEEK_DATA);
    if (data < 0 || static_cast<u64>(data) >= end) return;
    const long hole = raw::seek(fd, static_cast<u64>(data), SEEK_HOLE);
    const u64 stop = hole < 0 ? end : std::min(end, static_cast<u64>(hole));
    read_all(fd, address + (static_cast<u64>(data) - offset), stop - static_cast<u64>(data), static_cast<u64>(data));
    at = stop;
  }
}

// Puts a private copy over a part of a mapping. It is filled elsewhere first: what runs here may itself stand on the
// memory that is exchanged.
void make_private(int fd, const Mapping& mapping, AddressRange part) {
  void* place = raw::map(0, part.size(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS);
  if (place == MAP_FAILED) give_up();
  const u64 copy = reinterpret_cast<u64>(place);
  fill_from_file(fd, copy, part.size(), mapping.offset + (part.begin - mapping.range.begin));
  raw::protect(copy, part.size(), mapping.protection());
  if (raw::remap(copy, part.size(), part.size(), MREMAP_MAYMOVE | MREMAP_FIXED, part.begin) == MAP_FAILED) give_up();
}

// The child has no other thread, and its parent waits.
void make_all_private(const MemoryFile& file) {
  KernelMap map;
  const bool known = map.for_each({0, address_space_end}, KernelMap::Only::shared, [&](const Mapping& mapping) {
    if (file.shows(mapping)) make_private(file.fd(), mapping, mapping.range);
    return true;
  });
  if (!known) give_up();
}

u64 this_thread() { return static_cast<u64>(::pthread_self()); }

void close_end(int& fd) {
  if (fd >= 0) raw::close(fd);
  fd = -1;
}

}  // namespace

void ForkRound::begin(bool with_copy) {
  one_at_a_time_.lock();
  owner_ = this_thread();
  with_copy_ = with_copy;
  if (!with_copy_) return;
  block_signals();
  open_line();
}

// Another thread may have made the session while this one forked: then there was no begin().
void ForkRound::end_in_parent() {
  if (owner_ != this_thread()) return;
  if (with_copy_) {
    close_end(pipe_[1]);
    wait_for_child();
    close_line();
    restore_signals();
  }
  owner_ = 0;
  one_at_a_time_.unlock();
}

void ForkRound::end_in_child(MemoryFile& file) {
  if (owner_ != this_thread()) {
    make_all_private(file);
  } else if (with_copy_) {
    make_all_private(file);
    tell_parent();
    close_line();
    restore_signals();
  }
  file.close();
}

void ForkRound::open_line() {
  if (::syscall(SYS_pipe2, pipe_, O_CLOEXEC) == 0) return;
  pipe_[0] = pipe_[1] = -1;
  void* page = raw::map(0, page_size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS);
  if (page != MAP_FAILED) copied_ = new (page) std::atomic<u32>(0);
}

// By the pipe it ends when the child has copied, or died, or was never made. A page tells nothing of a death, so there
// patience has an end.
void ForkRound::wait_for_child() const {
  char byte;
  while (pipe_[0] >= 0 && raw::read(pipe_[0], &byte, 1) < 0 && errno == EINTR) {
  }
  constexpr int milliseconds = 10'000;
  for (int i = 0; copied_ && copied_->load(std::memory_order_acquire) == 0 && i < milliseconds; ++i) {
    const timespec millisecond{0, 1'000'000};
    ::syscall(SYS_nanosleep, &millisecond, nullptr);
  }
}

void ForkRound::tell_parent() {
  if (pipe_[1] >= 0) static_cast<void>(raw::write(pipe_[1], "", 1));
  if (copied_) copied_->store(1, std::memory_order_release);
}

void ForkRound::close_line() {
  close_end(pipe_[0]);
  close_end(pipe_[1]);
  if (copied_) raw::unmap(reinterpret_cast<u64>(copied_), page_size);
  copied_ = nullptr;
}

void ForkRound::block_signals() {
  u64 all = ~u64{0};
  ::syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, &signals_, sizeof all);
}

void ForkRound::restore_signals() { ::syscall(SYS_rt_sigprocmask, SIG_SETMASK, &signals_, nullptr, sizeof signals_); }

}  // namespace softib::hca
