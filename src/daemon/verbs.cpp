// The operations on objects: who may name what, and who is counted as its user. The rules of each kind are in objects/.
#include "daemon/control.h"

#include <algorithm>

namespace softib::daemon {

using Kind = ipc::ObjectKind;
using ipc::Empty;

namespace {

// An id that is no object of this context is as good as none.
Result<void> require(const ContextObject& context, Kind kind, u32 id) {
  return context.has(kind, id) ? Result<void>{} : fail(EINVAL);
}

}  // namespace

// -- protection domains

Result<ipc::AllocPd::Reply> Control::alloc_pd(Caller& caller, const Empty&) {
  auto pd = pds_.allocate(caller.context->id, caller.peer.slot);
  if (!pd) return fail(pd.error());
  caller.context->of(Kind::pd).insert(*pd);
  return ipc::AllocPd::Reply{*pd};
}

Result<Empty> Control::dealloc_pd(Caller& caller, const ipc::DeallocPd::Request& request) {
  if (auto known = require(*caller.context, Kind::pd, request.pd); !known) return fail(known.error());
  if (auto freed = pds_.free(request.pd); !freed) return fail(freed.error());
  caller.context->of(Kind::pd).erase(request.pd);
  return Empty{};
}

// -- memory

Result<ipc::RegMr::Reply> Control::reg_mr(Caller& caller, const ipc::RegMr::Request& request) {
  if (auto known = require(*caller.context, Kind::pd, request.pd); !known) return fail(known.error());
  const ProcessObject* process = processes_.find(caller.peer.slot);
  auto mr = keys_.reg(caller.context->id, {process->slot, process->generation}, request);
  if (!mr) return fail(mr.error());
  caller.context->of(Kind::mr).insert(*mr);
  u32 key = keys_.value(*mr);
  return ipc::RegMr::Reply{*mr, key, key, 0};
}

Result<ipc::ReregMr::Reply> Control::rereg_mr(Caller& caller, const ipc::ReregMr::Request& request) {
  if (auto known = require(*caller.context, Kind::mr, request.mr); !known) return fail(known.error());
  auto flags = static_cast<hca::RemapFlag>(request.flags);
  using hca::RemapFlag;
  if (!any(flags) || any(flags & ~(RemapFlag::translation | RemapFlag::pd | RemapFlag::access))) return fail(EINVAL);
  if (has(flags, RemapFlag::pd))
    if (auto known = require(*caller.context, Kind::pd, request.to.pd); !known) return fail(known.error());
  const ProcessObject* process = processes_.find(caller.peer.slot);
  auto changed = keys_.rereg(request.mr, {process->slot, process->generation}, flags, request.to);
  if (!changed) return fail(changed.error());
  u32 key = keys_.value(request.mr);
  return ipc::ReregMr::Reply{key, key};
}

Result<Empty> Control::dereg_mr(Caller& caller, const ipc::DeregMr::Request& request) {
  if (auto known = require(*caller.context, Kind::mr, request.mr); !known) return fail(known.error());
  if (auto gone = keys_.dereg(request.mr); !gone) return fail(gone.error());
  caller.context->of(Kind::mr).erase(request.mr);
  return Empty{};
}

Result<ipc::AllocMw::Reply> Control::alloc_mw(Caller& caller, const ipc::AllocMw::Request& request) {
  if (auto known = require(*caller.context, Kind::pd, request.pd); !known) return fail(known.error());
  auto mw = keys_.alloc_window(caller.context->id, caller.peer.slot, request.pd, request.type);
  if (!mw) return fail(mw.error());
  caller.context->of(Kind::mw).insert(*mw);
  return ipc::AllocMw::Reply{*mw, keys_.value(*mw)};
}

Result<Empty> Control::dealloc_mw(Caller& caller, const ipc::DeallocMw::Request& request) {
  if (auto known = require(*caller.context, Kind::mw, request.mw); !known) return fail(known.error());
  keys_.drop(request.mw);
  caller.context->of(Kind::mw).erase(request.mw);
  return Empty{};
}

// -- completion channels and queues

Result<ipc::CreateChannel::Reply> Control::create_channel(Caller& caller, const Empty&) {
  auto channel = channels_.create(caller.context->id, caller.peer.slot);
  if (!channel) return fail(channel.error());
  caller.context->of(Kind::channel).insert(channel->id);
  caller.given = std::move(channel->read);
  return ipc::CreateChannel::Reply{channel->id, channel->generation};
}

Result<ipc::CreateCq::Reply> Control::create_cq(Caller& caller, const ipc::CreateCq::Request& request) {
  if (request.channel)
    if (auto known = require(*caller.context, Kind::channel, request.channel); !known) return fail(known.error());
  auto cq = cqs_.create(caller.context->id, caller.peer.slot, request);
  if (!cq) return fail(cq.error());
  caller.context->of(Kind::cq).insert(cq->id);
  return ipc::CreateCq::Reply{cq->id, cq->entries, cq->ring.offset, cq->ring.bytes, 0};
}

Result<ipc::ResizeCq::Reply> Control::resize_cq(Caller& caller, const ipc::ResizeCq::Request& request) {
  if (auto known = require(*caller.context, Kind::cq, request.cq); !known) return fail(known.error());
  auto resized = cqs_.resize(request.cq, request.entries);
  if (!resized) return fail(resized.error());
  return ipc::ResizeCq::Reply{resized->entries, resized->ring.bytes, resized->ring.offset};
}

Result<ipc::DestroyCq::Reply> Control::destroy_cq(Caller& caller, const ipc::DestroyCq::Request& request) {
  ContextObject& context = *caller.context;
  if (auto known = require(context, Kind::cq, request.cq); !known) return fail(known.error());
  u32 channel = cqs_.find(request.cq)->channel;
  auto reply = cqs_.destroy(request.cq);
  if (!reply) return reply;
  context.of(Kind::cq).erase(request.cq);
  contexts_.forget_events(context, Kind::cq, request.cq);
  if (channel && channels_.detach(channel, request.cq)) context.of(Kind::channel).erase(channel);
  return reply;
}

// -- shared receive queues

Result<ipc::CreateSrq::Reply> Control::create_srq(Caller& caller, const ipc::CreateSrq::Request& request) {
  if (auto known = require(*caller.context, Kind::pd, request.pd); !known) return fail(known.error());
  auto srq = srqs_.create(caller.context->id, caller.peer.slot, request);
  if (srq) caller.context->of(Kind::srq).insert(srq->srq);
  return srq;
}

Result<ipc::ModifySrq::Reply> Control::modify_srq(Caller& caller, const ipc::ModifySrq::Request& request) {
  if (auto known = require(*caller.context, Kind::srq, request.srq); !known) return fail(known.error());
  return srqs_.modify(request.srq, request);
}

Result<ipc::QuerySrq::Reply> Control::query_srq(Caller& caller, const ipc::QuerySrq::Request& request) {
  if (auto known = require(*caller.context, Kind::srq, request.srq); !known) return fail(known.error());
  return srqs_.query(request.srq);
}

Result<ipc::DestroySrq::Reply> Control::destroy_srq(Caller& caller, const ipc::DestroySrq::Request& request) {
  ContextObject& context = *caller.context;
  if (auto known = require(context, Kind::srq, request.srq); !known) return fail(known.error());
  auto reply = srqs_.destroy(request.srq);
  if (!reply) return reply;
  context.of(Kind::srq).erase(request.srq);
  contexts_.forget_events(context, Kind::srq, request.srq);
  return reply;
}

Result<Empty> Control::free_ring(Caller& caller, const ipc::FreeRing::Request& request) {
  Result<void> freed = fail(EINVAL);
  if (u32 cq = find_resizing(cqs_.all(), caller.context->id, request.ring))
    freed = cqs_.end_resize(cq, request.ring);
  else if (u32 srq = find_resizing(srqs_.all(), caller.context->id, request.ring))
    freed = srqs_.end_resize(srq, request.ring);
  if (!freed) return fail(freed.error());
  return Empty{};
}

// -- queue pairs

Result<ipc::CreateQp::Reply> Control::create_qp(Caller& caller, const ipc::CreateQp::Request& request) {
  ContextObject& context = *caller.context;
  bool known = context.has(Kind::pd, request.pd) && context.has(Kind::cq, request.send_cq) &&
               context.has(Kind::cq, request.recv_cq) && (!request.srq || context.has(Kind::srq, request.srq));
  if (!known) return fail(EINVAL);
  auto qp = qps_.create({context.id, caller.peer.slot, context.device}, request);
  if (qp) context.of(Kind::qp).insert(qp->qpn);
  return qp;
}

Result<ipc::ModifyQp::Reply> Control::modify_qp(Caller& caller, const ipc::ModifyQp::Request& request) {
  if (auto known = require(*caller.context, Kind::qp, request.qpn); !known) return fail(known.error());
  auto state = qps_.modify(request.qpn, request.attributes);
  if (!state) return fail(state.error());
  return ipc::ModifyQp::Reply{*state};
}

Result<ipc::QueryQp::Reply> Control::query_qp(Caller& caller, const ipc::QueryQp::Request& request) {
  if (auto known = require(*caller.context, Kind::qp, request.qpn); !known) return fail(known.error());
  return qps_.query(request.qpn);
}

Result<ipc::DestroyQp::Reply> Control::destroy_qp(Caller& caller, const ipc::DestroyQp::Request& request) {
  ContextObject& context = *caller.context;
  if (auto known = require(context, Kind::qp, request.qpn); !known) return fail(known.error());
  auto reply = qps_.destroy(context, request.qpn);
  if (!reply) return reply;
  context.of(Kind::qp).erase(request.qpn);
  contexts_.forget_events(context, Kind::qp, request.qpn);
  return reply;
}

// -- addresses and groups

Result<ipc::CreateAh::Reply> Control::create_ah(Caller& caller, const ipc::CreateAh::Request& request) {
  if (auto known = require(*caller.context, Kind::pd, request.pd); !known) return fail(known.error());
  auto ah = ahs_.create(caller.context->id, caller.peer.slot, caller.context->device, request);
  if (!ah) return fail(ah.error());
  caller.context->of(Kind::ah).insert(*ah);
  return ipc::CreateAh::Reply{*ah};
}

Result<Empty> Control::destroy_ah(Caller& caller, const ipc::DestroyAh::Request& request) {
  if (auto known = require(*caller.context, Kind::ah, request.ah); !known) return fail(known.error());
  ahs_.drop(request.ah);
  caller.context->of(Kind::ah).erase(request.ah);
  return Empty{};
}

Result<Empty> Control::attach_multicast(Caller& caller, const ipc::AttachMulticast::Request& request) {
  if (auto known = require(*caller.context, Kind::qp, request.qpn); !known) return fail(known.error());
  if (auto joined = qps_.attach(request.qpn, request.gid, request.mlid); !joined) return fail(joined.error());
  return Empty{};
}

Result<Empty> Control::detach_multicast(Caller& caller, const ipc::DetachMulticast::Request& request) {
  if (auto known = require(*caller.context, Kind::qp, request.qpn); !known) return fail(known.error());
  if (auto left = qps_.detach(request.qpn, request.gid, request.mlid); !left) return fail(left.error());
  return Empty{};
}

}  // namespace softib::daemon
