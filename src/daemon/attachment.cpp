// Processes and contexts: coming in, opening devices, sharing contexts, reaching each other's memory.
#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <sys/resource.h>

#include <cstring>

#include "daemon/control.h"

namespace softib::daemon {

namespace {

Result<Fd> duplicate(int fd) {
  int copy = ::fcntl(fd, F_DUPFD_CLOEXEC, 0);
  return copy < 0 ? Result<Fd>(fail(errno)) : Result<Fd>(Fd(copy));
}

u64 lockable_memory() {
  struct rlimit limit {};
  return ::getrlimit(RLIMIT_MEMLOCK, &limit) == 0 ? limit.rlim_cur : RLIM_INFINITY;
}

}  // namespace

Result<ipc::Attach::Reply> Control::attach(Caller& caller, const ipc::Attach::Request& request) {
  if (request.version != ipc::interface_version || request.size_of_qp != sizeof(ipc::Qp)) {
    spdlog::warn("process {}: its interface version is {}, ours is {}", caller.peer.pid, request.version,
                 ipc::interface_version);
    return fail(EPROTO);
  }
  if (caller.peer.attached()) return fail(EINVAL);
  auto own = duplicate(file_->fd());
  if (!own) return fail(own.error());
  ipc::Attach::Reply reply{0, 0, ipc::segment_size, 0, 0, lockable_memory()};
  if (request.is_tool) {
    caller.peer.is_tool = true;
    caller.given = std::move(*own);
    return reply;
  }
  std::string_view name(request.host, ::strnlen(request.host, sizeof request.host));
  auto host = host_for_programs(name, caller.peer.pid);
  if (!host) return fail(host.error());
  auto process = processes_.attach({caller.peer.pid, *host, std::move(caller.received)}, request);
  if (!process) return fail(process.error());
  caller.peer.slot = reply.slot = (*process)->slot;
  reply.generation = (*process)->generation;
  reply.host = *host;
  caller.given = std::move(*own);
  spdlog::info("process {} ({}) on {} takes slot {}", caller.peer.pid, (*process)->program, name, reply.slot);
  return reply;
}

Result<ipc::OpenContext::Reply> Control::open_context(Caller& caller, const ipc::OpenContext::Request& request) {
  const ProcessObject* process = processes_.find(caller.peer.slot);
  if (request.device < 1 || request.device >= ipc::max_devices) return fail(ENODEV);
  const ipc::Device& device = world_.device(request.device);
  if (device.port_count == 0 || device.host != process->host || is_removed(request.device)) return fail(ENODEV);
  auto opened = contexts_.open(request.device, caller.peer.slot);
  if (!opened) return fail(opened.error());
  caller.given = std::move(opened->command);
  return ipc::OpenContext::Reply{opened->context->id, 0, opened->context->inode};
}

Result<ipc::ImportContext::Reply> Control::import_context(Caller&, const ipc::ImportContext::Request& request) {
  const ContextObject* context = contexts_.find_by_inode(request.inode);
  if (!context) return fail(EBADF);
  return ipc::ImportContext::Reply{context->id, context->device};
}

Result<ipc::Empty> Control::alloc_async_fd(Caller& caller, const ipc::Empty&) {
  auto read_end = contexts_.add_async_pipe(*caller.context);
  if (!read_end) return fail(read_end.error());
  caller.given = std::move(*read_end);
  return ipc::Empty{};
}

Result<ipc::Empty> Control::channel_fd(Caller& caller, const ipc::ChannelFd::Request& request) {
  const ChannelObject* channel = channels_.find(request.channel);
  if (!channel || channel->generation != request.generation) return fail(ENOENT);
  auto copy = duplicate(channel->write.get());
  if (!copy) return fail(copy.error());
  caller.given = std::move(*copy);
  return ipc::Empty{};
}

Result<ipc::Empty> Control::memory_fd(Caller& caller, const ipc::MemoryFd::Request& request) {
  const ProcessObject* process = processes_.find(request.slot);
  if (!process || process->generation != request.generation) return fail(ESRCH);
  auto copy = duplicate(process->memory.get());
  if (!copy) return fail(copy.error());
  caller.given = std::move(*copy);
  return ipc::Empty{};
}

}  // namespace softib::daemon
