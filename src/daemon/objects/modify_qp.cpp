// modify_qp and query_qp.
#include "daemon/objects/qps.h"
#include "hca/rules/qp_transitions.h"

namespace softib::daemon {

using hca::QpAttr;
using ipc::QpState;
using ipc::QpType;

// One modify_qp, its checks still to be made.
struct Qps::Change {
  ipc::Qp& qp;
  QpObject& object;
  const ipc::QpAttributes& wanted;
  QpAttr mask;
  QpState from;
  QpState to;

  [[nodiscard]] bool sets(QpAttr attribute) const { return has(mask, attribute); }
};

namespace {

QpState target_state(const ipc::QpAttributes& wanted, QpAttr mask, QpState from) {
  return has(mask, QpAttr::state) ? static_cast<QpState>(wanted.qp_state) : from;
}

// To RESET and ERR one gets from wherever the data path has taken the QP meanwhile; any other change must start where
// it was checked.
bool move_state(ipc::Qp& qp, QpState from, QpState to) {
  while (!qp.state.compare_exchange_strong(from, to, std::memory_order_acq_rel)) {
    bool from_anywhere = to == QpState::reset || to == QpState::err;
    if (!from_anywhere || from == QpState::destroyed) return false;
  }
  return true;
}

void start_receiving(ipc::Qp& qp) {
  qp.responder.expected_psn = qp.rq_psn;
  qp.responder.established = 0;
  qp.responder.last_wqe_raised = 0;
}

void start_sending(ipc::Qp& qp) {
  qp.requester.next_psn = qp.sq_psn;
  qp.requester.retries_left = qp.retry_count;
  qp.requester.rnr_left = qp.rnr_retry;
}

}  // namespace

Result<ipc::QpState> Qps::modify(u32 qpn, const ipc::QpAttributes& wanted) {
  ipc::Qp& qp = segment_.qps[qpn];
  auto mask = static_cast<QpAttr>(wanted.mask);
  QpState from = qp.state.load(std::memory_order_acquire);
  Change change{qp, qps_.at(qpn), wanted, mask, from, target_state(wanted, mask, from)};
  if (auto allowed = check_change(change); !allowed) return fail(allowed.error());
  // A QP stops before its attributes go, and has them all before it starts.
  bool stops = change.to == QpState::reset || change.to == QpState::err;
  if (!stops) apply(change);
  if (!move_state(qp, change.from, change.to)) return fail(EINVAL);
  if (change.to == QpState::reset) clear(qp, change.object);
  return change.to;
}

Result<void> Qps::check_change(const Change& change) const {
  if (change.sets(QpAttr::cur_state) && static_cast<QpState>(change.wanted.cur_qp_state) != change.from)
    return fail(EINVAL);
  if (auto legal = hca::check_transition(change.qp.type, change.from, change.to, change.mask); !legal) return legal;
  // Work goes on only after the queue has drained.
  if (change.from == QpState::sqd && change.to == QpState::rts && change.qp.sq_draining) return fail(EINVAL);
  bool rearms = change.sets(QpAttr::path_mig_state) &&
                change.wanted.path_mig_state == static_cast<u32>(hca::PathMigration::rearm);
  if (rearms && !change.sets(QpAttr::alt_path) && !change.object.alternate.port_num) return fail(EINVAL);
  return hca::check_values(change.wanted, change.mask, place_of(change.object));
}

void Qps::apply(const Change& change) {
  apply_configuration(change);
  apply_path(change);
  apply_alternate(change);
  if (change.from == QpState::init && change.to == QpState::rtr) start_receiving(change.qp);
  if (change.from == QpState::rtr && change.to == QpState::rts) start_sending(change.qp);
  if (change.from == QpState::rts && change.to == QpState::sqd) {
    change.object.notify_drained = change.sets(QpAttr::en_sqd_async_notify) && change.wanted.en_sqd_async_notify;
    change.qp.sq_draining = 1;  // until the owner's engine has drained it
  }
}

void Qps::set_port(ipc::Qp& qp, QpObject& object, u8 port_num) {
  object.port_num = port_num;
  object.port = parts_.world.port_index(object.device, port_num);
  qp.port = object.port;
  // Datagrams are bounded by the port's MTU; connections name their own.
  if (qp.type == QpType::ud) qp.path_mtu = hca::mtu_bytes(parts_.world.port(object.port).active_mtu);
}

void Qps::apply_configuration(const Change& change) {
  auto& [qp, object, wanted, mask, from, to] = change;
  u8 port_num = hca::port_after(wanted, mask, place_of(object));
  if (port_num != object.port_num) set_port(qp, object, port_num);
  if (change.sets(QpAttr::pkey_index)) qp.pkey_index = wanted.pkey_index;
  if (change.sets(QpAttr::pkey_index) || change.sets(QpAttr::port))
    qp.pkey = parts_.world.pkey_at(object.port, qp.pkey_index);
  if (change.sets(QpAttr::access_flags)) qp.access = wanted.access_flags;
  if (change.sets(QpAttr::qkey)) qp.qkey = wanted.qkey;
  if (change.sets(QpAttr::max_rd_atomic)) qp.max_rd_atomic = wanted.max_rd_atomic;
  if (change.sets(QpAttr::max_dest_rd_atomic)) qp.max_dest_rd_atomic = wanted.max_dest_rd_atomic;
  if (change.sets(QpAttr::min_rnr_timer)) qp.min_rnr_timer = wanted.min_rnr_timer;
  if (change.sets(QpAttr::retry_count)) qp.retry_count = wanted.retry_count;
  if (change.sets(QpAttr::rnr_retry)) qp.rnr_retry = wanted.rnr_retry;
  if (change.sets(QpAttr::timeout)) qp.timeout = wanted.timeout;
}

void Qps::apply_path(const Change& change) {
  auto& [qp, object, wanted, mask, from, to] = change;
  if (change.sets(QpAttr::dest_qpn)) qp.dest_qpn = wanted.dest_qp_num;
  if (change.sets(QpAttr::path_mtu)) qp.path_mtu = hca::mtu_bytes(wanted.path_mtu);
  if (change.sets(QpAttr::rq_psn)) qp.rq_psn = wanted.rq_psn & hca::psn_mask;
  if (change.sets(QpAttr::sq_psn)) qp.sq_psn = wanted.sq_psn & hca::psn_mask;
  if (!change.sets(QpAttr::av)) return;
  ipc::AddressVector av = wanted.av;
  parts_.resolver.resolve({ipc::ObjectKind::qp, qp.qpn}, av, object.port, qp.pkey);
  qp.av = av;
}

Result<u32> Qps::find_route(u32 qpn) {
  const QpObject* object = find(qpn);
  if (!object) return fail(ENOENT);
  ipc::Qp& qp = parts_.world.segment.qps[qpn];
  parts_.resolver.resolve({ipc::ObjectKind::qp, qpn}, qp.av, object->port, qp.pkey);
  return qp.av.port;
}

void Qps::apply_alternate(const Change& change) {
  auto& [qp, object, wanted, mask, from, to] = change;
  if (change.sets(QpAttr::alt_path))
    object.alternate = {wanted.alt_av, wanted.alt_pkey_index, wanted.alt_port_num, wanted.alt_timeout};
  if (!change.sets(QpAttr::path_mig_state)) return;
  bool migrates = wanted.path_mig_state == static_cast<u32>(hca::PathMigration::migrated);
  if (migrates && object.migration == hca::PathMigration::armed && object.alternate.port_num) migrate(qp, object);
  object.migration = migrates ? hca::PathMigration::migrated : hca::PathMigration::armed;
}

void Qps::migrate(ipc::Qp& qp, QpObject& object) {
  set_port(qp, object, object.alternate.port_num);
  qp.pkey_index = object.alternate.pkey_index;
  qp.pkey = parts_.world.pkey_at(object.port, qp.pkey_index);
  qp.timeout = object.alternate.timeout;
  ipc::AddressVector av = object.alternate.av;
  parts_.resolver.resolve({ipc::ObjectKind::qp, qp.qpn}, av, object.port, qp.pkey);
  qp.av = av;
}

// What the program set is gone after RESET; rings and their indices are the owner's engine's to empty.
void Qps::clear(ipc::Qp& qp, QpObject& object) {
  qp.timeout = qp.retry_count = qp.rnr_retry = qp.min_rnr_timer = 0;
  qp.max_rd_atomic = qp.max_dest_rd_atomic = qp.sq_draining = 0;
  qp.pkey = qp.pkey_index = 0;
  qp.port = qp.dest_qpn = qp.qkey = qp.access = 0;
  qp.path_mtu = qp.rq_psn = qp.sq_psn = 0;
  qp.av = {};
  object.port_num = 0;
  object.port = 0;
  object.notify_drained = false;
  object.migration = hca::PathMigration::migrated;
  object.alternate = {};
}

ipc::QueryQp::Reply Qps::query(u32 qpn) const {
  const ipc::Qp& qp = segment_.qps[qpn];
  const QpObject& object = qps_.at(qpn);
  QpState state = qp.state.load(std::memory_order_acquire);
  if (state == QpState::destroyed) state = QpState::err;  // its process died; another one of the context asks
  bool receives = state != QpState::reset && state != QpState::init;
  bool sends = receives && state != QpState::rtr;
  ipc::QueryQp::Reply reply{};
  ipc::QpAttributes& a = reply.attributes;
  a.qp_state = a.cur_qp_state = static_cast<u32>(state);
  a.path_mtu = hca::mtu_enum(qp.path_mtu);
  a.path_mig_state = static_cast<u32>(object.migration);
  a.qkey = qp.qkey;
  a.rq_psn = receives ? qp.responder.expected_psn & hca::psn_mask : qp.rq_psn;
  a.sq_psn = sends ? qp.requester.next_psn & hca::psn_mask : qp.sq_psn;
  a.dest_qp_num = qp.dest_qpn;
  a.access_flags = qp.access;
  a.caps = object.granted;
  a.av = qp.av;
  a.alt_av = object.alternate.av;
  a.pkey_index = qp.pkey_index;
  a.alt_pkey_index = object.alternate.pkey_index;
  a.en_sqd_async_notify = object.notify_drained;
  a.sq_draining = state == QpState::sqd && qp.sq_draining;
  a.max_rd_atomic = qp.max_rd_atomic;
  a.max_dest_rd_atomic = qp.max_dest_rd_atomic;
  a.min_rnr_timer = qp.min_rnr_timer;
  a.port_num = object.port_num;
  a.timeout = qp.timeout;
  a.retry_count = qp.retry_count;
  a.rnr_retry = qp.rnr_retry;
  a.alt_port_num = object.alternate.port_num;
  a.alt_timeout = object.alternate.timeout;
  reply.sq_sig_all = qp.sq_sig_all;
  return reply;
}

}  // namespace softib::daemon
