#include "daemon/objects/cqs.h"

#include "hca/limits.h"

namespace softib::daemon {

namespace {

constexpr u32 cq_rest = 256;

Result<void> check_request(const ipc::CreateCq::Request& request) {
  if (request.entries == 0 || request.entries > hca::limits::max_cqe) return fail(EINVAL);
  if (request.comp_vector >= hca::limits::max_comp_vectors) return fail(EINVAL);
  if (request.flags) return fail(EOPNOTSUPP);  // time stamps, ignoring overruns
  return {};
}

}  // namespace

Cqs::Cqs(World& world, Channels& channels) : world_(world), channels_(channels), indices_(1, ipc::max_cqs, cq_rest) {}

CqObject* Cqs::find(u32 id) {
  auto found = cqs_.find(id);
  return found == cqs_.end() ? nullptr : &found->second;
}

Result<Cqs::Created> Cqs::create(u32 context, u32 creator, const ipc::CreateCq::Request& request) {
  if (auto fits = check_request(request); !fits) return fail(fits.error());
  if (cqs_.size() >= hca::limits::max_cq) return fail(ENOMEM);
  hca::RingLayout layout = hca::cq_layout(request.entries);
  auto ring = place_ring(world_, layout);
  if (!ring) return fail(ring.error());
  u32 id = indices_.take();
  if (!id) {
    world_.free_later(ring->offset);
    return fail(ENOMEM);
  }
  ipc::Cq& cq = world_.segment.cqs[id];
  World::wipe(cq);
  cq.mask = layout.mask();
  cq.ring = ring->offset;
  cq.channel = request.channel;
  if (request.channel) cq.channel_generation = channels_.find(request.channel)->generation;
  cq.context = context;
  cq.owner = creator;
  cq.user_handle = request.user_handle;
  World::raise_limit(world_.segment.header.cq_limit, id);
  cq.generation.store(world_.new_generation(), std::memory_order_release);
  cqs_.emplace(id, CqObject{context, creator, request.channel, 0, ResizableRing(*ring)});
  if (request.channel) channels_.attach(request.channel);
  return Created{id, layout.entries(), *ring};
}

Result<Cqs::Created> Cqs::resize(u32 id, u32 entries) {
  if (entries == 0 || entries > hca::limits::max_cqe) return fail(EINVAL);
  hca::RingLayout layout = hca::cq_layout(entries);
  auto ring = cqs_.at(id).ring.begin_resize(world_, layout);
  if (!ring) return fail(ring.error());
  return Created{id, layout.entries(), *ring};
}

Result<void> Cqs::end_resize(u32 id, u64 ring) {
  auto ended = cqs_.at(id).ring.end_resize(world_, ring, world_.segment.cqs[id].ring);
  return ended ? Result<void>{} : fail(ended.error());
}

Result<ipc::DestroyCq::Reply> Cqs::destroy(u32 id) {
  if (cqs_.at(id).users) return fail(EBUSY);
  ipc::Cq& cq = world_.segment.cqs[id];
  ipc::DestroyCq::Reply reply{close_count(cq.events_reported), close_count(cq.async_events_reported)};
  drop(id);
  return reply;
}

void Cqs::drop(u32 id) {
  auto found = cqs_.find(id);
  if (found == cqs_.end()) return;
  CqObject cq = found->second;
  cqs_.erase(found);
  world_.segment.cqs[id].generation.store(0, std::memory_order_seq_cst);
  cq.ring.free(world_);
  world_.limbo.add([this, id] { indices_.give_back(id); });
}

void Cqs::unuse(u32 id) {
  if (CqObject* cq = find(id)) --cq->users;
}

}  // namespace softib::daemon
