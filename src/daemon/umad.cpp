// The management plane's side of Control: umad files, and what changes in the network.
#include <infiniband/verbs.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstring>
#include <set>

#include "daemon/control.h"
#include "daemon/hosts_keeper.h"
#include "hca/engine/timers.h"

namespace softib::daemon {

namespace {

Registration registration_of(const ipc::UmadRegister::Request& request) {
  Registration wanted;
  wanted.qpn = request.qpn;
  wanted.mgmt_class = request.mgmt_class;
  wanted.class_version = request.class_version;
  wanted.rmpp_version = request.rmpp_version;
  wanted.user_rmpp = request.user_rmpp != 0;
  std::copy_n(request.oui, wanted.oui.size(), wanted.oui.begin());
  for (u32 method = 0; method < most_methods; ++method)
    wanted.methods[method] = request.methods[method / 64] >> method % 64 & 1;
  return wanted;
}

}  // namespace

// Ports are counted through the host's HCAs (fabric::port_number_on_host); 0: it has no such.
u32 Control::umad_port(u32 host, u32 number) const {
  const ipc::Segment& segment = file_->segment();
  for (u32 i = 1; i <= segment.header.device_count && i < ipc::max_devices; ++i) {
    const ipc::Device& device = segment.devices[i];
    if (device.host != host) continue;
    if (number < device.port_count) return device.first_port + number;
    number -= device.port_count;
  }
  return 0;
}

Result<ipc::OpenUmad::Reply> Control::open_umad(Caller& caller, const ipc::OpenUmad::Request& request) {
  const ProcessObject* process = processes_.find(caller.peer.slot);
  const u32 port = plane_ && process ? umad_port(process->host, request.number) : 0;
  if (!port || is_removed(file_->segment().ports[port].device)) return fail(ENXIO);
  auto opened = request.issm ? plane_->open_issm(port) : plane_->open_umad(port);
  if (!opened) return fail(opened.error());
  caller.given = std::move(opened->socket);
  if (request.issm) issm_openers_[port] = {process->pid, process->program};
  return ipc::OpenUmad::Reply{opened->file, 0};
}

Result<ipc::UmadRegister::Reply> Control::umad_register(Caller&, const ipc::UmadRegister::Request& request) {
  if (!plane_) return fail(EINVAL);
  auto agent = plane_->add_agent(request.file, registration_of(request));
  if (!agent) return fail(agent.error());
  return ipc::UmadRegister::Reply{*agent, 0};
}

Result<ipc::Empty> Control::umad_unregister(Caller&, const ipc::UmadUnregister::Request& request) {
  if (!plane_) return fail(EINVAL);
  if (auto removed = plane_->remove_agent(request.file, request.agent); !removed) return fail(removed.error());
  return ipc::Empty{};
}

Result<ipc::FindRoute::Reply> Control::find_route(Caller&, const ipc::FindRoute::Request& request) {
  settle();  // what changed is told before it is walked
  auto port = request.kind == ipc::ObjectKind::ah ? ahs_.find_route(request.object) : qps_.find_route(request.object);
  if (!port) return fail(port.error());
  return ipc::FindRoute::Reply{*port, 0};
}

// The packet as its two QPs tell it.
Result<ipc::Empty> Control::report_violation(Caller&, const ipc::ReportViolation::Request& request) {
  const QpObject* source = qps_.find(request.source_qpn);
  const QpObject* target = qps_.find(request.target_qpn);
  if (!source || !target) return fail(ENOENT);
  if (!plane_ || !target->port) return ipc::Empty{};
  const ipc::AddressVector& av = file_->segment().qps[request.source_qpn].av;
  plane_->key_refused(
      request.kind, source->port, target->port,
      {.key = request.key, .sl = av.sl, .source_qp = request.source_qpn, .destination_qp = request.target_qpn});
  return ipc::Empty{};
}

// Programs first: they don't see the ports go.
Result<ipc::Fault::Reply> Control::fault(Caller& caller, const ipc::Fault::Request& request) {
  if (!caller.peer.is_tool) return fail(EPERM);
  if (!faults_) return fail(EOPNOTSUPP);
  const bool starts = request.kind == ipc::FaultKind::start_manager;
  if (request.kind == ipc::FaultKind::start_aggregation || request.kind == ipc::FaultKind::stop_aggregation)
    return run_aggregation(request.kind == ipc::FaultKind::start_aggregation);
  if (managers_ && (starts || request.kind == ipc::FaultKind::stop_manager))
    return ipc::Fault::Reply{world_.watcher.run_stock_managers(starts), 0, 0, 0};
  if (auto checked = faults_->check(request); !checked) return fail(checked.error());
  ipc::Fault::Reply reply{};
  if (const auto host = faults_->dying_host(request)) {
    kill_programs(*host, reply);
    wires_->host_down(*host);
  }
  reply.changed = faults_->apply(request);
  if (request.kind == ipc::FaultKind::remove_hca && reply.changed)
    remove_device(device_at({request.a.node, request.a.hca}));
  reply.disabled = faults_->disabled_ports(request);
  settle();
  return reply;
}

Result<ipc::Fault::Reply> Control::run_aggregation(bool run) {
  if (!aggregation_) return fail(ENOENT);
  return ipc::Fault::Reply{world_.watcher.run_aggregation(run), 0, 0, 0};
}

// After its power, so that what is left to say to its peers gets lost, as when a card is pulled out.
void Control::remove_device(u32 device) {
  ipc::Device& record = file_->segment().devices[device];
  record.removals.fetch_add(1, std::memory_order_release);
  for (const auto& [id, context] : contexts_.all()) {
    if (context.device != device) continue;
    for (u32 qpn : context.of(ipc::ObjectKind::qp)) qps_.silence(qpn);
    contexts_.remove(*contexts_.find(id));
  }
  for (u32 i = 0; plane_ && i < record.port_count; ++i) plane_->hang_up(record.first_port + i);
  wires_->device_down(record.first_port, record.port_count, hca::now_ns());
}

u32 Control::device_at(HcaPlace at) const {
  for (u32 i = 1; i <= file_->segment().header.device_count; ++i)
    if (const ipc::Device& record = world_.device(i); record.host == at.host && record.index_on_host == at.hca)
      return i;
  return 0;
}

bool Control::is_removed(u32 device) const {
  const ipc::Device& record = world_.device(device);
  return faults_ && faults_->removed().contains({record.host, record.index_on_host});
}

// Those with an HCA open, wherever they run, and all that are in the host's namespaces.
void Control::kill_programs(u32 host, ipc::Fault::Reply& reply) {
  std::set<pid_t> known;
  for (const auto& [id, peer] : peers_) {
    const ProcessObject* process = peer.slot ? processes_.find(peer.slot) : nullptr;
    if (!process || process->host != host) continue;
    known.insert(process->pid);
    const bool killed = world_.watcher.kill(id);
    spdlog::info("process {} ({}) {} with its host", process->pid, process->program,
                 killed ? "is killed" : "can't be killed");
    ++(killed ? reply.killed : reply.spared);
  }
  if (keeper_) reply.killed += keeper_->kill_all_on(fabric_.hosts[host].name, std::move(known));
}

void Control::umad_readable(u32 file, u64 now) {
  if (plane_) plane_->umad_readable(file, now);
}

u64 Control::advance(u64 now) {
  u64 next = ~0ULL;
  if (plane_) {
    next = faults_->on_time(now);
    next = std::min(next, plane_->on_time(now));
  }
  next = std::min(next, wires_->advance(now));
  settle();
  return next;
}

void Control::settle() {
  if (!plane_) return;
  const auto changes = plane_->take_changes();
  if (plane_->take_routes_changed()) routes_.expire();
  trees_.show_all_but(faults_->removed());
  for (const Plane::PortChange& change : changes) {
    trees_.update(change.port, change.before, change.now);
    tell_port_change(change);
  }
  for (const u32 port : plane_->take_reregistered()) raise_port_event(port, IBV_EVENT_CLIENT_REREGISTER);
}

// As the kernel's drivers turn a change of PortInfo into events.
void Control::tell_port_change(const Plane::PortChange& change) {
  const fabric::PortStatus& before = change.before;
  const fabric::PortStatus& now = change.now;
  const bool was_active = before.state == ipc::PortState::active;
  const bool is_active = now.state == ipc::PortState::active;
  if (before.lid != now.lid || before.lmc != now.lmc) raise_port_event(change.port, IBV_EVENT_LID_CHANGE);
  if (before.sm_lid != now.sm_lid || before.sm_sl != now.sm_sl) raise_port_event(change.port, IBV_EVENT_SM_CHANGE);
  if (before.pkeys != now.pkeys) raise_port_event(change.port, IBV_EVENT_PKEY_CHANGE);
  if (before.gids != now.gids) raise_port_event(change.port, IBV_EVENT_GID_CHANGE);
  if (was_active && !is_active) raise_port_event(change.port, IBV_EVENT_PORT_ERR);
  if (!was_active && is_active) raise_port_event(change.port, IBV_EVENT_PORT_ACTIVE);
}

}  // namespace softib::daemon
