// What softibd tells: async events to programs, its state to tools.
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstring>

#include "daemon/control.h"
#include "daemon/status.h"
#include "hca/engine/verbs.h"

namespace softib::daemon {

using Kind = ipc::ObjectKind;

namespace {

bool wants(const Qps& qps, u32 qpn, u32 event_type) {
  // Draining is reported to those who asked for it in modify_qp.
  if (event_type != static_cast<u32>(hca::AsyncEvent::sq_drained)) return true;
  return qps.all().at(qpn).notify_drained;
}

}  // namespace

Result<Control::EventTarget> Control::find_event_target(Kind kind, u32 object) {
  if (kind == Kind::qp)
    if (const QpObject* qp = qps_.find(object))
      return EventTarget{qp->context, segment().qps[object].user_handle, segment().qps[object].generation.load()};
  if (kind == Kind::cq)
    if (const CqObject* cq = cqs_.find(object))
      return EventTarget{cq->context, segment().cqs[object].user_handle, segment().cqs[object].generation.load()};
  if (kind == Kind::srq)
    if (const SrqObject* srq = srqs_.find(object))
      return EventTarget{srq->context, segment().srqs[object].user_handle, segment().srqs[object].generation.load()};
  return fail(ENOENT);
}

Result<ipc::Empty> Control::raise_event(Caller&, const ipc::RaiseEvent::Request& request) {
  if (request.event_type > static_cast<u32>(hca::AsyncEvent::gid_change)) return fail(EINVAL);
  auto target = find_event_target(request.kind, request.object);
  if (!target) return fail(target.error());
  if (target->generation != request.generation) return fail(ENOENT);
  if (request.kind == Kind::qp && !wants(qps_, request.object, request.event_type)) return ipc::Empty{};
  ContextObject* context = contexts_.find(target->context);
  if (!context || context->async_pipes.empty()) return ipc::Empty{};
  ipc::AsyncRecord record{target->user_handle, request.event_type, request.kind, request.object, target->generation};
  if (!contexts_.report(*context, record))
    spdlog::warn("event {} of object {} is lost: nobody reads the async events of context {}", request.event_type,
                 request.object, context->id);
  return ipc::Empty{};
}

void Control::raise_port_event(u32 port, u32 event_type) {
  const ipc::Port& record = world_.port(port);
  for (const auto& [id, context] : contexts_.all()) {
    if (context.device != record.device) continue;
    contexts_.report_everywhere(*contexts_.find(id), {record.number, event_type, Kind::port, port, 0});
  }
}

Result<ipc::Status::Reply> Control::status(Caller& caller, const ipc::Status::Request& request) {
  std::string& text = caller.peer.status;
  if (request.offset == 0) text = request.topic == ipc::Topic::links ? links_text(*this) : status_text(*this);
  if (request.offset > text.size()) return fail(EINVAL);
  ipc::Status::Reply reply{};
  reply.total = text.size();
  reply.length = static_cast<u32>(std::min<u64>(text.size() - request.offset, ipc::status_piece));
  std::memcpy(reply.text, text.data() + request.offset, reply.length);
  return reply;
}

Result<ipc::ListHandles::Reply> Control::list_handles(Caller& caller, const ipc::ListHandles::Request& request) {
  if (static_cast<size_t>(request.kind) >= object_kinds) return fail(EINVAL);
  const auto& ids = caller.context->of(request.kind);
  ipc::ListHandles::Reply reply{};
  reply.total = static_cast<u32>(ids.size());
  for (u32 id : ids) {
    if (reply.count == std::size(reply.handles)) break;
    reply.handles[reply.count++] = id;
  }
  return reply;
}

}  // namespace softib::daemon
