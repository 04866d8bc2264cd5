#include "hca/session.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>

#include "hca/engine/ring.h"

namespace softib::hca {

namespace {

std::atomic<Session*> the_session{nullptr};
std::mutex attaching;

// The cause is told once per process: libibverbs goes through all devices and would repeat it for each.
void tell_once(const char* format, const char* fabric) {
  static std::atomic<bool> told{false};
  if (told.exchange(true)) return;
  char text[512];
  int length = std::snprintf(text, sizeof text, format, fabric);
  if (length > 0 && ::write(STDERR_FILENO, text, std::min<size_t>(static_cast<size_t>(length), sizeof text - 1)) < 0) {
    // Nowhere to tell it.
  }
}

const char* base_name(const char* path) {
  const char* slash = std::strrchr(path, '/');
  return slash ? slash + 1 : path;
}

Errno connection_failed(const char* dir, Errno error) {
  const char* name = base_name(dir);
  if (error == Errno{ECONNREFUSED} || error == Errno{ENOENT})
    tell_once("softib: the fabric '%s' is not running; start it with 'softib up'\n", name);
  else if (error == Errno{EACCES} || error == Errno{EPERM})
    tell_once("softib: the fabric '%s' belongs to another user; no right to connect to its daemon\n", name);
  else
    tell_once("softib: can't connect to the daemon of fabric '%s'\n", name);
  return Errno{ENODEV};
}

Errno attach_failed(const char* dir, Errno error) {
  const char* name = base_name(dir);
  if (error == Errno{EPROTO})
    tell_once(
        "softib: fabric '%s' was started by another version of softib than this program's preload library; "
        "restart it with 'softib down' and 'softib up'\n",
        name);
  else if (error == Errno{ENODEV})
    tell_once("softib: fabric '%s' has no host of the name in SOFTIB_HOST\n", name);
  else if (error == Errno{EPERM})
    tell_once("softib: the host in SOFTIB_HOST is an aggregation node of fabric '%s', on which nobody runs programs\n",
              name);
  else
    tell_once("softib: the daemon of fabric '%s' refused this process; see daemon.log in its directory\n", name);
  return error;
}

ipc::Attach::Request describe_self(const char* host) {
  ipc::Attach::Request request{};
  request.version = ipc::interface_version;
  request.size_of_qp = sizeof(ipc::Qp);
  request.local_pid = ::getpid();
  struct stat info {};
  if (::stat("/proc/self/ns/pid", &info) == 0) request.pid_namespace = info.st_ino;
  ipc::put_text(request.host, host);
  std::strncpy(request.program, program_invocation_short_name, sizeof request.program - 1);
  return request;
}

// With empty room behind it, for rings that a broken record places too near to the end (engine/ring.h).
ipc::Segment* map_segment(int fd) {
  constexpr u64 size = ipc::segment_size + ring_reach;
  constexpr int access = PROT_READ | PROT_WRITE;
  // Not accessible at first: address space alone counts against no limit of memory.
  void* place = ::mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (place == MAP_FAILED) return nullptr;
  void* mapped = ::mmap(place, ipc::segment_size, access, MAP_SHARED | MAP_NORESERVE | MAP_FIXED, fd, 0);
  if (mapped == MAP_FAILED || ::mprotect(static_cast<u8*>(place) + ipc::segment_size, ring_reach, access) != 0) {
    ::munmap(place, size);
    return nullptr;
  }
  // A child has its own session or none; core dumps need no sparse terabytes.
  ::madvise(place, size, MADV_DONTFORK);
  ::madvise(place, size, MADV_DONTDUMP);
  return static_cast<ipc::Segment*>(place);
}

}  // namespace

Session* Session::current() { return the_session.load(std::memory_order_acquire); }

Result<Session*> Session::get() {
  if (Session* session = current()) return session;
  std::lock_guard guard(attaching);
  if (Session* session = current()) return session;
  auto attached = attach();
  if (attached) the_session.store(*attached, std::memory_order_release);
  return attached;
}

Result<Session*> Session::attach() {
  const char* dir = std::getenv("SOFTIB_FABRIC_DIR");
  const char* host = std::getenv("SOFTIB_HOST");
  char place[256];
  if (dir && !ipc::host_of_place(dir, place).empty()) host = place;
  if (!dir || !host) return fail(ENODEV);
  auto client = ipc::Client::connect(dir);
  if (!client) return fail(connection_failed(dir, client.error()));
  auto memory = ProcessMemory::create();
  if (!memory) return fail(memory.error());
  // Lets peers of the same user reach this memory where ptrace is restricted to descendants (Yama scope 1).
  ::prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
  Fd segment_fd;
  auto reply = (*client)->call_fd<ipc::Attach>(0, describe_self(host), (*memory)->fd(), &segment_fd);
  if (!reply) return fail(attach_failed(dir, reply.error()));
  ipc::Segment* segment = map_segment(segment_fd.get());
  if (!segment) {
    tell_once("softib: no address space for the segment of fabric '%s' (is 'ulimit -v' set?)\n", base_name(dir));
    return fail(ENOMEM);
  }
  auto session = std::make_unique<Session>();
  session->segment_ = segment;
  session->segment_fd_ = std::move(segment_fd);
  session->client_ = std::move(*client);
  session->memory_ = std::move(*memory);
  session->slot_ = reply->slot;
  session->host_ = reply->host;
  session->memory_->set_usual_limit(reply->memlock);
  session->engine_ = Engine::create(*segment, *session->client_, reply->slot, session->memory_->fd());
  session->memory_->set_own_thread(&session->engine_->helper_thread());
  return session.release();
}

void Session::after_fork_in_child() {
  Session* parents = the_session.exchange(nullptr, std::memory_order_acq_rel);
  if (!parents) return;
  // The object itself stays, unreachable: other threads of the parent may have held its locks.
  parents->client_->abandon();
  parents->engine_->abandon();
  parents->segment_fd_.reset();
}

}  // namespace softib::hca
