#include "daemon/status.h"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>

#include "daemon/child_process.h"
#include "daemon/control.h"
#include "daemon/plane/manager.h"
#include "fabric/sysfs.h"

namespace softib::daemon {

namespace {

using nlohmann::json;

constexpr std::array object_names{"context", "pd", "mr", "mw", "cq", "srq", "qp", "ah", "channel"};

struct Counts {
  std::map<std::string, u64> of;
  Counts() {
    for (const char* name : object_names) of[name] = 0;
  }
};

json port_json(const ipc::Port& port) {
  json gids = json::array();
  for (u32 i = 0; i < std::min<u32>(port.gid_count, ipc::max_gids_per_port); ++i)
    gids.push_back(fabric::gid_text(port.gids[i]));
  auto rate =
      fabric::sysfs_rate(static_cast<fabric::Speed>(port.active_speed), static_cast<fabric::Width>(port.active_width));
  return {{"number", port.number}, {"state", fabric::name_of(port.state.load())},
          {"lid", port.lid},       {"sm_lid", port.sm_lid},
          {"rate", rate},          {"gids", gids}};
}

json hosts_json(const Control& control) {
  const ipc::Segment& segment = control.segment_file().segment();
  json hosts = json::array();
  u32 port_index = 0;
  for (const fabric::Host& host : control.fabric().hosts) {
    json devices = json::array();
    for (const fabric::Hca& hca : host.hcas) {
      json ports = json::array();
      for (size_t i = 0; i < hca.ports.size(); ++i) ports.push_back(port_json(segment.ports[++port_index]));
      devices.push_back({{"name", hca.name}, {"node_guid", fabric::guid_text(hca.node_guid)}, {"ports", ports}});
    }
    hosts.push_back({{"name", host.name}, {"devices", devices}});
  }
  return hosts;
}

const char* name_of(ipc::KeyKind kind) { return kind == ipc::KeyKind::region ? "mr" : "mw"; }

std::map<u32, Counts> count_by_creator(const Control& control) {
  std::map<u32, Counts> counts;
  for (const auto& [id, process] : control.processes().all()) counts[id];
  auto add = [&counts](const auto& objects, const char* name) {
    for (const auto& [id, object] : objects) ++counts[object.creator].of[name];
  };
  add(control.contexts().all(), "context");
  add(control.pds().all(), "pd");
  add(control.cqs().all(), "cq");
  add(control.srqs().all(), "srq");
  add(control.qps().all(), "qp");
  add(control.ahs().all(), "ah");
  add(control.channels().all(), "channel");
  for (const auto& [id, key] : control.keys().all()) ++counts[key.creator].of[name_of(key.kind)];
  return counts;
}

u64 memory_of(const ProcessObject& process) {
  constexpr u64 block = 512;
  struct stat info {};
  return ::fstat(process.memory.get(), &info) == 0 ? static_cast<u64>(info.st_blocks) * block : 0;
}

json processes_json(const Control& control, const std::map<u32, Counts>& counts) {
  json processes = json::array();
  for (const auto& [slot, process] : control.processes().all())
    processes.push_back({{"pid", process.pid},
                         {"slot", slot},
                         {"host", control.fabric().hosts[process.host].name},
                         {"program", process.program},
                         {"memory_bytes", memory_of(process)},
                         {"objects", counts.at(slot).of}});
  return processes;
}

// -- namespaces

json namespaces_json(const Control& control) {
  const HostsKeeper* keeper = control.hosts_keeper();
  if (!keeper) return json::object();
  json shown = {{"kind", keeper->kind() == ipc::PlaceKind::plain        ? "plain"
                         : keeper->kind() == ipc::PlaceKind::namespaces ? "namespaces"
                                                                        : "lost"},
                {"note", keeper->note()}};
  if (keeper->kind() != ipc::PlaceKind::namespaces) return shown;
  shown["keeper_pid"] = keeper->pid();
  shown["user_namespace"] = keeper->in_user_namespace();
  shown["own_pids"] = control.fabric().own_pids;
  shown["link"] = keeper->link();
  return shown;
}

// -- subnet managers

std::string place_name(const net::Network& network, const fabric::Fabric& fabric, net::PortRef place) {
  for (u32 i = 0; i < fabric.switches.size(); ++i)
    if (network.switch_node(i) == place.node) return fabric.switches[i].name;
  for (u32 host = 0; host < fabric.hosts.size(); ++host)
    for (u32 hca = 0; hca < fabric.hosts[host].hcas.size(); ++hca)
      if (network.hca_node(host, hca) == place.node)
        return to_string(fabric, fabric::CableEnd{fabric::EndKind::hca, host, hca, place.port});
  return {};
}

json builtin_json(const Control& control, const Plane& plane) {
  static constexpr std::array names{"NOT ACTIVE", "DISCOVERING", "STANDBY", "MASTER"};
  json managers = json::array();
  for (const Plane::ManagerView& manager : plane.managers())
    managers.push_back({{"kind", "builtin"},
                        {"place", place_name(plane.network(), control.fabric(), manager.place)},
                        {"state", names[static_cast<size_t>(manager.state)]},
                        {"subnet_up", subnet_is_active(plane.network(), manager.place)}});
  return managers;
}

void add_stock(const Control& control, const Plane& plane, json& managers) {
  if (!control.stock_managers()) return;
  for (const StockManagers::Process& process : control.stock_managers()->all()) {
    const net::PortRef at{plane.network().hca_node(process.place.node, process.place.hca),
                          static_cast<u8>(process.place.port)};
    managers.push_back({{"kind", "opensm"},
                        {"place", process.label},
                        {"pid", process.pid},
                        {"state", process.ended ? "ended with " + how_it_ended(*process.ended) : "running"},
                        {"running", !process.ended},
                        {"log", process.dir + "/opensm.log"},
                        {"output", process.dir + "/opensm.out"},
                        {"subnet_up", subnet_is_active(plane.network(), at)}});
  }
}

// Programs that users run. What their SMInfo says shows in the ports: the master has told each its LID.
void add_other(const Control& control, const Plane& plane, json& managers) {
  for (const u32 port : plane.issm_ports()) {
    const auto opener = control.issm_openers().find(port);
    if (opener == control.issm_openers().end()) continue;
    const auto is_known = [&](const json& one) { return one.value("pid", i64{-1}) == opener->second.pid; };
    if (std::any_of(managers.begin(), managers.end(), is_known)) continue;
    const net::PortView view = plane.network().port(plane.ref_of(port));
    managers.push_back({{"kind", opener->second.program},
                        {"place", place_name(plane.network(), control.fabric(), plane.ref_of(port))},
                        {"pid", opener->second.pid},
                        {"state", view.lid != 0 && view.sm_lid == view.lid ? "MASTER" : "not master"},
                        {"subnet_up", subnet_is_active(plane.network(), plane.ref_of(port))}});
  }
}

// Of a host, those that have been taken out.
size_t hcas_out(const Control& control, u32 host) {
  if (!control.faults()) return 0;
  const auto& removed = control.faults()->removed();
  return static_cast<size_t>(
      std::count_if(removed.begin(), removed.end(), [host](const HcaPlace& place) { return place.host == host; }));
}

json aggregation_json(const Control& control) {
  json list = json::array();
  if (!control.aggregation()) return list;
  for (const AggregationPrograms::Process& process : control.aggregation()->all()) {
    const fabric::Host& host = control.fabric().hosts[process.host];
    list.push_back({{"host", host.name},
                    {"nodes", host.hcas.size()},
                    {"nodes_in", host.hcas.size() - hcas_out(control, process.host)},
                    {"state", control.aggregation()->state(process)},
                    {"running", process.runs()},
                    {"ready", process.runs() && process.ready},
                    {"log", process.log()}});
    if (process.pid != 0) list.back()["pid"] = process.pid;
  }
  return list;
}

json managers_json(const Control& control) {
  const Plane* plane = control.plane();
  if (!plane) return json::array();
  json managers = builtin_json(control, *plane);
  add_stock(control, *plane, managers);
  add_other(control, *plane, managers);
  return managers;
}

}  // namespace

namespace {

json rdma_cm_json(const Control& control) {
  const RdmaCm::Counts counts = control.rdma_cm().counts();
  return {{"files", counts.files},
          {"ids", counts.ids},
          {"listening", counts.listening},
          {"events", counts.events},
          {"connections", counts.connections},
          {"timewait", counts.timewaits},
          {"multicasts", counts.multicasts}};
}

}  // namespace

std::string status_text(const Control& control) {
  auto counts = count_by_creator(control);
  Counts total;
  for (const auto& [slot, some] : counts)
    for (const auto& [name, number] : some.of) total.of[name] += number;
  auto uptime = std::chrono::duration_cast<std::chrono::seconds>(std::chrono::steady_clock::now() - control.started());
  json all = {
      {"fabric", control.fabric().name},
      {"link_layer", fabric::to_string(control.fabric().link_layer)},
      {"daemon_pid", control.segment_file().segment().header.daemon_pid},
      {"uptime_s", uptime.count()},
      {"hosts", hosts_json(control)},
      {"namespaces", namespaces_json(control)},
      {"subnet_managers", managers_json(control)},
      {"aggregation", aggregation_json(control)},
      {"processes", processes_json(control, counts)},
      {"faults", control.faults() ? control.faults()->report().faults() : json::array()},
      {"objects", total.of},
      {"rdma_cm", rdma_cm_json(control)},
      {"memory",
       {{"segment_bytes", control.segment_file().allocated_bytes()}, {"arena_bytes", control.arena().used_bytes()}}}};
  // A program's name is whatever bytes it likes.
  return all.dump(-1, ' ', false, json::error_handler_t::replace);
}

std::string links_text(const Control& control) {
  return control.faults() ? control.faults()->report().links().dump() : json::array().dump();
}

}  // namespace softib::daemon
