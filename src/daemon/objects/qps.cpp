#include "daemon/objects/qps.h"

#include "hca/limits.h"
#include "hca/rules/address.h"
#include "hca/rules/qp_transitions.h"

namespace softib::daemon {

namespace {

using hca::QpAttr;
using ipc::QpState;
using ipc::QpType;

// A QPN that comes back too soon would take the late messages of its predecessor.
constexpr u32 qp_rest = 4096;

Result<void> check_type(const ipc::CreateQp::Request& request) {
  bool known = request.type == QpType::rc || request.type == QpType::uc || request.type == QpType::ud;
  if (!known || request.create_flags) return fail(EOPNOTSUPP);
  return {};
}

}  // namespace

Qps::Qps(Parts parts)
    : parts_(parts), segment_(parts.world.segment), indices_(hca::limits::first_qpn, ipc::max_qps, qp_rest) {}

QpObject* Qps::find(u32 qpn) {
  auto found = qps_.find(qpn);
  return found == qps_.end() ? nullptr : &found->second;
}

Result<u32> Qps::claim_index(const hca::QpLayout& plan, RingBlock& send, RingBlock& recv) {
  auto send_ring = place_ring(parts_.world, plan.send);
  if (!send_ring) return fail(send_ring.error());
  send = *send_ring;
  if (plan.receive.slots) {
    auto recv_ring = place_ring(parts_.world, plan.receive);
    if (!recv_ring) return fail(recv_ring.error());
    recv = *recv_ring;
  }
  u32 qpn = indices_.take();
  return qpn ? Result<u32>(qpn) : fail(ENOMEM);
}

Result<ipc::CreateQp::Reply> Qps::create(Place place, const ipc::CreateQp::Request& request) {
  if (auto type = check_type(request); !type) return fail(type.error());
  auto plan = hca::plan_qp(request.caps, request.srq != 0);
  if (!plan) return fail(plan.error());
  if (qps_.size() >= hca::limits::max_qp) return fail(ENOMEM);
  QpObject object{place.context,   place.creator, place.device, request.pd, request.send_cq,
                  request.recv_cq, request.srq,   {},           {}};
  object.granted = plan->granted;
  auto qpn = claim_index(*plan, object.send_ring, object.recv_ring);
  if (!qpn) {
    parts_.world.free_later(object.send_ring.offset);
    parts_.world.free_later(object.recv_ring.offset);
    return fail(qpn.error());
  }
  publish(*qpn, object, *plan, request);
  parts_.pds.use(request.pd);
  parts_.cqs.use(request.send_cq);
  parts_.cqs.use(request.recv_cq);
  if (request.srq) parts_.srqs.use(request.srq);
  ipc::CreateQp::Reply reply{*qpn,
                             plan->granted,
                             object.send_ring.bytes,
                             object.recv_ring.bytes,
                             object.send_ring.offset,
                             object.recv_ring.offset};
  qps_.emplace(*qpn, std::move(object));
  return reply;
}

void Qps::publish(u32 qpn, const QpObject& object, const hca::QpLayout& plan, const ipc::CreateQp::Request& request) {
  ipc::Qp& qp = segment_.qps[qpn];
  World::wipe(qp);
  qp.type = request.type;
  qp.link_layer = link_layer_of(object);
  qp.sq_sig_all = request.sq_sig_all != 0;
  qp.qpn = qpn;
  qp.pd = object.pd;
  qp.context = object.context;
  qp.owner = object.creator;
  qp.send_cq = object.send_cq;
  qp.recv_cq = object.recv_cq;
  qp.srq = object.srq;
  qp.sq_ring = object.send_ring.offset;
  qp.sq_mask = plan.send.mask();
  qp.sq_log2_size = plan.send.log2_size;
  if (plan.receive.slots) {
    qp.rq_ring = object.recv_ring.offset;
    qp.rq_mask = plan.receive.mask();
    qp.rq_log2_size = plan.receive.log2_size;
  }
  qp.max_send_sge = plan.granted.max_send_sge;
  qp.max_recv_sge = plan.granted.max_recv_sge;
  qp.max_inline = plan.granted.max_inline;
  qp.user_handle = request.user_handle;
  World::raise_limit(segment_.header.qp_limit, qpn);
  qp.generation.store(parts_.world.new_generation(), std::memory_order_release);
}

ipc::LinkLayer Qps::link_layer_of(const QpObject& object) const {
  return parts_.world.port(parts_.world.port_index(object.device, 1)).link_layer;
}

hca::QpPlace Qps::place_of(const QpObject& object) const {
  return {object.port_num, parts_.world.ports_of(object.device)};
}

Result<ipc::DestroyQp::Reply> Qps::destroy(ContextObject& context, u32 qpn) {
  if (parts_.groups.memberships(qpn)) return fail(EBUSY);
  ipc::DestroyQp::Reply reply{close_count(segment_.qps[qpn].async_events_reported)};
  drop(context, qpn);
  return reply;
}

// Its rings stay: the program may still write to them.
void Qps::silence(u32 qpn) {
  ipc::Qp& qp = segment_.qps[qpn];
  qp.state.store(QpState::destroyed, std::memory_order_seq_cst);
  qp.generation.store(0, std::memory_order_seq_cst);
  parts_.resolver.forget({ipc::ObjectKind::qp, qpn});
  parts_.groups.leave_all(qpn);
}

void Qps::drop(ContextObject& context, u32 qpn) {
  auto found = qps_.find(qpn);
  if (found == qps_.end()) return;
  QpObject object = std::move(found->second);
  qps_.erase(found);
  silence(qpn);
  parts_.keys.unbind_from(context, qpn);
  parts_.cqs.unuse(object.send_cq);
  parts_.cqs.unuse(object.recv_cq);
  parts_.srqs.unuse(object.srq);
  parts_.pds.unuse(object.pd);
  parts_.world.free_later(object.send_ring.offset);
  parts_.world.free_later(object.recv_ring.offset);
  parts_.world.limbo.add([this, qpn] { indices_.give_back(qpn); });
}

Result<void> Qps::attach(u32 qpn, const ipc::Gid& gid, u16 mlid) {
  if (segment_.qps[qpn].type != QpType::ud || !hca::is_multicast_gid(gid)) return fail(EINVAL);
  return parts_.groups.attach(link_layer_of(qps_.at(qpn)), qpn, gid, mlid);
}

Result<void> Qps::detach(u32 qpn, const ipc::Gid& gid, u16 mlid) {
  if (segment_.qps[qpn].type != QpType::ud || !hca::is_multicast_gid(gid)) return fail(EINVAL);
  return parts_.groups.detach(link_layer_of(qps_.at(qpn)), qpn, gid, mlid);
}

void Qps::abandon_all_of(u32 slot) {
  for (const auto& [qpn, object] : qps_)
    if (object.creator == slot) segment_.qps[qpn].state.store(QpState::destroyed, std::memory_order_seq_cst);
}

}  // namespace softib::daemon
