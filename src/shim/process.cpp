// Fork is followed by pthread_atfork handlers and not by a wrapper: daemon() and forkpty() fork inside the C library,
// where no wrapper is reached, and run the handlers all the same. system(), popen() and posix_spawn() share the memory
// until exec and need nothing. _Fork() and a raw clone() run no handlers: see owns_memory() for what keeps those apart.
//
// Handlers run in the child in the order in which they were registered, and write to memory. So those that give the
// child its own copies of shared pages are registered when the library is loaded, before any of the program's own.
// Allocators that were there earlier have locked their heaps by then: these handlers allocate nothing and take no part
// in the table. Those of the table are registered on first use and may allocate.
#include "shim/process.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>

#include "hca/session.h"
#include "shim/files.h"

namespace softib::shim {

constinit FdTable process_table{watch_forks};

namespace {

constinit std::atomic<pid_t> owner{0};

pid_t this_process() { return static_cast<pid_t>(::syscall(SYS_getpid)); }

void memory_before_fork() {
  if (auto* session = hca::Session::current()) session->memory().before_fork();
}

void memory_after_fork_in_parent() {
  if (auto* session = hca::Session::current()) session->memory().after_fork_in_parent();
}

void memory_after_fork_in_child() {
  owner.store(this_process(), std::memory_order_relaxed);
  if (auto* session = hca::Session::current()) session->memory().after_fork_in_child();
}

[[gnu::constructor]] void watch_memory() {
  ::pthread_atfork(memory_before_fork, memory_after_fork_in_parent, memory_after_fork_in_child);
}

void before_fork() { fd_table().lock(); }

void after_fork_in_parent() { fd_table().unlock(); }

// The child has copies of the program's descriptors, and they work; what this process knew of the contexts behind them
// is the parent's, and is left where it lies: its locks may have been held. A command file is imported anew when the
// child uses it.
void inherit_descriptors() {
  FdTable& table = fd_table();
  for (int fd = 0; fd < table.end(); ++fd) {
    FdTable::Entry entry = table.find(fd);
    if (entry.kind == FdClass::command) {
      table.forsake(fd, FdClass::received);
    } else if (entry.kind == FdClass::own && ::fcntl(fd, F_GETFD) < 0) {
      table.forsake(fd, FdClass::none);
    }
  }
}

void after_fork_in_child() {
  fd_table().unlock();
  hca::Session::after_fork_in_child();
  inherit_descriptors();
}

}  // namespace

void watch_forks() {
  owner.store(this_process(), std::memory_order_relaxed);
  ::pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}

bool owns_memory() { return owner.load(std::memory_order_relaxed) == this_process(); }

}  // namespace softib::shim
