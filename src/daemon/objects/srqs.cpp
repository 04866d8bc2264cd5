#include "daemon/objects/srqs.h"

#include <algorithm>

#include "hca/limits.h"

namespace softib::daemon {

namespace {

using hca::SrqAttr;

constexpr u32 srq_rest = 256;

}  // namespace

Srqs::Srqs(World& world, Pds& pds) : world_(world), pds_(pds), indices_(1, ipc::max_srqs, srq_rest) {}

SrqObject* Srqs::find(u32 id) {
  auto found = srqs_.find(id);
  return found == srqs_.end() ? nullptr : &found->second;
}

Result<ipc::CreateSrq::Reply> Srqs::create(u32 context, u32 creator, const ipc::CreateSrq::Request& request) {
  if (request.max_wr == 0 || request.max_wr > hca::limits::max_srq_wr || request.max_sge > hca::limits::max_srq_sge)
    return fail(EINVAL);
  if (request.limit > request.max_wr) return fail(EINVAL);
  if (srqs_.size() >= hca::limits::max_srq) return fail(ENOMEM);
  u32 max_sge = std::max(request.max_sge, 1U);
  hca::RingLayout layout = hca::receive_layout(request.max_wr, max_sge);
  auto ring = place_ring(world_, layout);
  if (!ring) return fail(ring.error());
  u32 id = indices_.take();
  if (!id) {
    world_.free_later(ring->offset);
    return fail(ENOMEM);
  }
  ipc::Srq& srq = world_.segment.srqs[id];
  World::wipe(srq);
  srq.mask = layout.mask();
  srq.ring = ring->offset;
  srq.max_sge = max_sge;
  srq.max_wr = layout.entries();
  srq.limit.store(request.limit, std::memory_order_relaxed);
  srq.pd = request.pd;
  srq.context = context;
  srq.owner = creator;
  srq.user_handle = request.user_handle;
  World::raise_limit(world_.segment.header.srq_limit, id);
  srq.generation.store(world_.new_generation(), std::memory_order_release);
  pds_.use(request.pd);
  srqs_.emplace(id, SrqObject{context, creator, request.pd, 0, ResizableRing(*ring)});
  return ipc::CreateSrq::Reply{id, layout.entries(), max_sge, ring->bytes, ring->offset};
}

Result<void> Srqs::check_change(u32 id, SrqAttr mask, const ipc::ModifySrq::Request& request) const {
  if (any(mask & ~(SrqAttr::max_wr | SrqAttr::limit))) return fail(EINVAL);
  const ipc::Srq& srq = world_.segment.srqs[id];
  if (srq.error.load(std::memory_order_relaxed)) return fail(EINVAL);
  bool resizes = has(mask, SrqAttr::max_wr);
  if (resizes && (request.max_wr == 0 || request.max_wr > hca::limits::max_srq_wr)) return fail(EINVAL);
  u32 limit = has(mask, SrqAttr::limit) ? request.limit : srq.limit.load(std::memory_order_relaxed);
  if (limit > (resizes ? request.max_wr : srq.max_wr)) return fail(EINVAL);
  return {};
}

Result<ipc::ModifySrq::Reply> Srqs::modify(u32 id, const ipc::ModifySrq::Request& request) {
  auto mask = static_cast<SrqAttr>(request.mask);
  if (auto allowed = check_change(id, mask, request); !allowed) return fail(allowed.error());
  SrqObject& object = srqs_.at(id);
  ipc::Srq& srq = world_.segment.srqs[id];
  ipc::ModifySrq::Reply reply{srq.max_wr, 0, 0};
  if (has(mask, SrqAttr::max_wr)) {
    hca::RingLayout layout = hca::receive_layout(request.max_wr, srq.max_sge);
    auto ring = object.ring.begin_resize(world_, layout);
    if (!ring) return fail(ring.error());
    object.new_max_wr = layout.entries();
    reply = {layout.entries(), ring->bytes, ring->offset};
  }
  if (has(mask, SrqAttr::limit)) srq.limit.store(request.limit, std::memory_order_release);
  return reply;
}

ipc::QuerySrq::Reply Srqs::query(u32 id) const {
  const ipc::Srq& srq = world_.segment.srqs[id];
  return {srq.max_wr, srq.max_sge, srq.limit.load(std::memory_order_relaxed)};
}

Result<void> Srqs::end_resize(u32 id, u64 ring) {
  SrqObject& object = srqs_.at(id);
  ipc::Srq& srq = world_.segment.srqs[id];
  auto ended = object.ring.end_resize(world_, ring, srq.ring);
  if (!ended) return fail(ended.error());
  if (*ended == ResizableRing::Resize::took_place) srq.max_wr = object.new_max_wr;
  return {};
}

Result<ipc::DestroySrq::Reply> Srqs::destroy(u32 id) {
  if (srqs_.at(id).users) return fail(EBUSY);
  ipc::DestroySrq::Reply reply{close_count(world_.segment.srqs[id].async_events_reported)};
  drop(id);
  return reply;
}

void Srqs::drop(u32 id) {
  auto found = srqs_.find(id);
  if (found == srqs_.end()) return;
  SrqObject srq = found->second;
  srqs_.erase(found);
  world_.segment.srqs[id].generation.store(0, std::memory_order_seq_cst);
  pds_.unuse(srq.pd);
  srq.ring.free(world_);
  world_.limbo.add([this, id] { indices_.give_back(id); });
}

void Srqs::unuse(u32 id) {
  if (SrqObject* srq = find(id)) --srq->users;
}

}  // namespace softib::daemon
