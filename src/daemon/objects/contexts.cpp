#include "daemon/objects/contexts.h"

#include <sys/socket.h>
#include <sys/stat.h>

#include "daemon/event_pipe.h"
#include "hca/engine/verbs.h"

namespace softib::daemon {

Result<Contexts::Opened> Contexts::open(u32 device, u32 creator) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0) return fail(errno);
  Fd own(ends[0]);
  Fd given(ends[1]);
  struct stat info {};
  if (::fstat(given.get(), &info) < 0) return fail(errno);
  u32 id = ++last_id_;
  ContextObject& context = contexts_[id];
  context.id = id;
  context.device = device;
  context.creator = creator;
  context.inode = info.st_ino;
  context.command = std::move(own);
  world_.watcher.watch_context(id, context.command.get());
  return Opened{&context, std::move(given)};
}

ContextObject* Contexts::find(u32 id) {
  auto found = contexts_.find(id);
  return found == contexts_.end() ? nullptr : &found->second;
}

ContextObject* Contexts::find_by_inode(u64 inode) {
  for (auto& [id, context] : contexts_)
    if (context.inode == inode) return &context;
  return nullptr;
}

Result<Fd> Contexts::add_async_pipe(ContextObject& context) {
  auto pipe = make_pipe();
  if (!pipe) return fail(pipe.error());
  context.async_pipes.push_back(std::move(pipe->write));
  return std::move(pipe->read);
}

bool Contexts::report(ContextObject& context, const ipc::AsyncRecord& record) {
  auto& pipes = context.async_pipes;
  while (!pipes.empty()) {
    auto written = write_record(pipes.front(), &record, sizeof record);
    if (written) return true;
    if (to_int(written.error()) != EPIPE) return false;
    pipes.erase(pipes.begin());  // nobody reads it any more
  }
  return false;
}

void Contexts::report_everywhere(ContextObject& context, const ipc::AsyncRecord& record) {
  std::erase_if(context.async_pipes, [&](const Fd& pipe) {
    auto written = write_record(pipe, &record, sizeof record);
    return !written && to_int(written.error()) == EPIPE;
  });
}

void Contexts::remove(ContextObject& context) {
  report_everywhere(context,
                    {0, static_cast<u32>(hca::AsyncEvent::device_fatal), ipc::ObjectKind::device, context.device, 0});
  context.async_pipes.clear();
  context.removed = true;
}

void Contexts::forget_events(ContextObject& context, ipc::ObjectKind kind, u32 object) {
  for (const Fd& pipe : context.async_pipes)
    drop_records<ipc::AsyncRecord>(
        pipe, [&](const ipc::AsyncRecord& record) { return record.kind == kind && record.object == object; });
}

void Contexts::close(u32 id) {
  auto found = contexts_.find(id);
  if (found == contexts_.end()) return;
  world_.watcher.forget(found->second.command.get());
  contexts_.erase(found);
}

}  // namespace softib::daemon
