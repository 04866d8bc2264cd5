// From records to a fabric: which HCAs make a host, what everything is called, and which lines are one cable.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <unordered_map>
#include <unordered_set>

#include "fabric/complete.h"
#include "fabric/topo/clos.h"
#include "fabric/topo/import.h"
#include "fabric/topo/net_records.h"
#include "fabric/topo/node_names.h"
#include "fabric/topo/sort.h"

namespace softib::fabric::topo {

namespace {

// An HCA on its way into a host.
struct DraftHca {
  u32 record = 0;
  std::string device;  // empty: to be numbered
};

struct DraftHost {
  std::string name;
  HostKind kind = HostKind::server;
  std::vector<DraftHca> hcas;
};

struct DraftCable {
  Cable cable;  // with the link's rate
  int line = 0;
};

// One line's side of a cable.
struct PortRef {
  u32 record = 0;
  u32 index = 0;  // among the record's ports
};

class NetImport {
 public:
  NetImport(std::string_view source, Dialect dialect, Records records)
      : source_(source), dialect_(dialect), records_(std::move(records.nodes)) {
    result_.warnings = std::move(records.warnings);
  }

  Parsed<Imported> run();

 private:
  void index();
  void name_switches();
  void draft_hosts();
  void draft_hca(u32 record);
  void draft_aggregation_nodes();
  std::string switch_beside(const Record& node) const;
  void make_switches();
  void make_hosts();
  Hca make_hca(const DraftHca& draft, u32 place, const Host& host);
  Port make_port(const Record& record, const RecordPort* line, u32 number);
  u64 free_guid(u64 wanted);
  u16 lid_of(std::optional<u16> lid, int line, std::string_view owner);
  void make_cables();
  void make_cable(PortRef from);
  const RecordPort* other_side(u32 remote, const RecordPort& line) const;
  void check_other_side(const Record& owner, const RecordPort& line, const RecordPort& other);
  void set_switch_abilities();
  void add_cables();
  std::optional<CableEnd> end_of(u32 record, u32 port) const;

  void fail(int line, std::string_view text) {
    if (!error_) error_ = one_line(fmt::format("{}:{}: {}", source_, line, text));
  }
  void warn(int line, std::string_view text) {
    result_.warnings.push_back(one_line(fmt::format("{}:{}: {}", source_, line, text)));
  }
  int line_of_fault(Where where) const;

  std::string source_;
  Dialect dialect_;
  std::vector<Record> records_;
  std::unordered_map<std::string_view, u32> by_id_;
  std::unordered_set<u64> guids_;   // that somebody has
  std::vector<std::string> names_;  // of switches, by record
  std::vector<DraftHost> hosts_;
  std::unordered_map<std::string, std::vector<u32>> groups_;  // what descriptions call a host -> hosts_
  UniqueNames taken_;
  std::vector<std::optional<CableEnd>> places_;  // by record, port 0
  std::vector<DraftCable> cables_;
  std::map<Where, int> lines_;
  std::optional<std::string> error_;
  Imported result_;
};

void NetImport::index() {
  for (u32 r = 0; r < records_.size(); ++r) by_id_.emplace(records_[r].id, r);
  for (const Record& record : records_) {
    guids_.insert({record.guid, record.port_guid});
    for (const RecordPort& port : record.ports) guids_.insert(port.guid);
  }
  names_.resize(records_.size());
  places_.resize(records_.size());
}

void NetImport::name_switches() {
  for (u32 r = 0; r < records_.size(); ++r) {
    const Record& record = records_[r];
    if (record.kind != RecordKind::sw) continue;
    std::string_view wanted = record.description.empty() ? std::string_view(record.id) : record.description;
    names_[r] = taken_.take(as_switch_name(wanted, fmt::format("switch-{:x}", record.guid)));
  }
}

// -- hosts

// The host that this HCA's description names; another one of that name where the device is there already, as with
// hosts that are all called localhost.
void NetImport::draft_hca(u32 r) {
  const Record& record = records_[r];
  std::string_view text = record.description.empty() ? std::string_view(record.id) : record.description;
  HcaName name = name_from_description(text);
  std::string card = fmt::format("node-{:x}", record.system_guid ? record.system_guid : record.guid);
  auto& group = groups_[name.host.empty() ? card : "=" + name.host];
  for (u32 h : group) {
    auto& hcas = hosts_[h].hcas;
    bool there = std::any_of(hcas.begin(), hcas.end(),
                             [&](const DraftHca& hca) { return !hca.device.empty() && hca.device == name.device; });
    if (there || hcas.size() == max_hcas_per_host) continue;
    hcas.push_back({r, name.device});
    return;
  }
  if (!group.empty())
    warn(record.line,
         fmt::format("host '{}' has an HCA '{}' already; this one makes another host", name.host, name.device));
  group.push_back(static_cast<u32>(hosts_.size()));
  hosts_.push_back({taken_.take(as_host_name(name.host, card)), HostKind::server, {{r, name.device}}});
}

std::string NetImport::switch_beside(const Record& node) const {
  for (const RecordPort& port : node.ports)
    if (auto found = by_id_.find(port.remote); found != by_id_.end() && !names_[found->second].empty())
      return names_[found->second];
  return fmt::format("{:x}", node.guid);
}

void NetImport::draft_aggregation_nodes() {
  for (u32 r = 0; r < records_.size(); ++r) {
    const Record& record = records_[r];
    if (record.kind != RecordKind::ca || !is_aggregation_node(record.description)) continue;
    std::string name = taken_.take(as_host_name(switch_beside(record) + "-an", fmt::format("an-{:x}", record.guid)));
    hosts_.push_back({std::move(name), HostKind::aggregation, {{r, {}}}});
  }
}

void NetImport::draft_hosts() {
  for (u32 r = 0; r < records_.size(); ++r)
    if (records_[r].kind == RecordKind::ca && !is_aggregation_node(records_[r].description)) draft_hca(r);
  draft_aggregation_nodes();
  std::sort(hosts_.begin(), hosts_.end(), [](const DraftHost& a, const DraftHost& b) {
    return a.kind != b.kind ? a.kind < b.kind : natural_less(a.name, b.name);
  });
  // Devices without a name stand behind the others, in the order of their records.
  for (DraftHost& host : hosts_)
    std::stable_sort(host.hcas.begin(), host.hcas.end(), [](const DraftHca& a, const DraftHca& b) {
      if (a.device.empty() || b.device.empty()) return !a.device.empty() && b.device.empty();
      return natural_less(a.device, b.device);
    });
}

// 0xffff and the like stand in the dump of a fabric that no subnet manager has set up.
u16 NetImport::lid_of(std::optional<u16> lid, int line, std::string_view owner) {
  if (!lid || *lid < ipc::lid_count) return lid.value_or(0);
  warn(line, fmt::format("LID {} of '{}' is no unicast LID and is left out", *lid, owner));
  return 0;
}

// A port without a link has no GUID in a dump: it gets what cards often have, or the next that is nobody else's.
u64 NetImport::free_guid(u64 wanted) {
  while (wanted == 0 || !guids_.insert(wanted).second) ++wanted;
  return wanted;
}

// What its ports do that have a link; those that have none are of the same kind.
std::optional<Speed> best_speed(const Record& record) {
  std::optional<Speed> best;
  for (const RecordPort& port : record.ports)
    if (port.speed) best = std::max(best.value_or(*port.speed), *port.speed);
  return best;
}

Port NetImport::make_port(const Record& record, const RecordPort* line, u32 number) {
  Port port{.number = static_cast<u8>(number)};
  port.guid = line && line->guid ? line->guid : free_guid(record.guid + number);
  if (!line) {
    port.speed = best_speed(record).value_or(port.speed);
    return port;
  }
  if (line->lid) port.lid = lid_of(line->lid, line->line, record.description);
  port.lmc = port.lid ? line->lmc : u8{0};
  port.speed = line->speed.value_or(port.speed);
  port.width = line->width.value_or(port.width);
  return port;
}

Hca NetImport::make_hca(const DraftHca& draft, u32 place, const Host& host) {
  const Record& record = records_[draft.record];
  Hca hca{.name = draft.device, .node_guid = record.guid, .system_guid = record.system_guid};
  if (const Model* model = find_model(record.vendor_id, record.device_id)) {
    hca.model = model->name;
  } else {
    hca.vendor_id = record.vendor_id;
    hca.device_id = std::min(record.device_id, 0xffffU);
  }
  if (record.description != node_description(host, hca)) hca.description = record.description;
  std::vector<const RecordPort*> lines(record.port_count + 1);
  for (const RecordPort& port : record.ports) lines[port.number] = &port;
  u32 count = std::min(record.port_count, max_ports_per_hca);
  if (count < record.port_count)
    warn(record.line, fmt::format("'{}' has {} ports; the first {} are kept", record.id, record.port_count, count));
  for (u32 p = 1; p <= count; ++p) {
    hca.ports.push_back(make_port(record, lines[p], p));
    if (lines[p])
      lines_.emplace(Where{Part::port, static_cast<u32>(result_.fabric.hosts.size()), place, p - 1}, lines[p]->line);
  }
  return hca;
}

void NetImport::make_hosts() {
  for (DraftHost& draft : hosts_) {
    UniqueNames devices;
    for (DraftHca& hca : draft.hcas)
      if (!hca.device.empty()) (void)devices.take(hca.device);
    u32 next = 0;
    for (DraftHca& hca : draft.hcas)
      while (hca.device.empty())
        if (std::string name = fmt::format("mlx5_{}", next++); devices.take(name) == name) hca.device = name;
    Host host{draft.name, {}, draft.kind};
    auto h = static_cast<u32>(result_.fabric.hosts.size());
    lines_.emplace(Where{Part::host, h, 0, 0}, records_[draft.hcas[0].record].line);
    for (u32 d = 0; d < draft.hcas.size(); ++d) {
      places_[draft.hcas[d].record] = CableEnd{EndKind::hca, h, d, 0};
      lines_.emplace(Where{Part::hca, h, d, 0}, records_[draft.hcas[d].record].line);
      host.hcas.push_back(make_hca(draft.hcas[d], d, host));
    }
    result_.fabric.hosts.push_back(std::move(host));
  }
}

// -- switches

void NetImport::make_switches() {
  std::vector<u32> order;
  for (u32 r = 0; r < records_.size(); ++r)
    if (records_[r].kind == RecordKind::sw) order.push_back(r);
  std::sort(order.begin(), order.end(), [&](u32 a, u32 b) { return natural_less(names_[a], names_[b]); });
  for (u32 r : order) {
    const Record& record = records_[r];
    Switch sw{.name = names_[r],
              .ports = record.port_count,
              .node_guid = record.guid,
              .lid = lid_of(record.lid, record.line, record.description),
              .port_guid = record.port_guid,
              .system_guid = record.system_guid,
              .enhanced_port0 = record.enhanced_port0};
    if (sw.lid && sw.enhanced_port0) sw.lmc = record.lmc;
    if (record.description != sw.name) sw.description = record.description;
    auto s = static_cast<u32>(result_.fabric.switches.size());
    places_[r] = CableEnd{EndKind::sw, s, 0, 0};
    lines_.emplace(Where{Part::sw, s, 0, 0}, record.line);
    result_.fabric.switches.push_back(std::move(sw));
  }
}

// A dump tells what links run at, and a port can do at least that.
void NetImport::set_switch_abilities() {
  for (u32 r = 0; r < records_.size(); ++r) {
    if (records_[r].kind != RecordKind::sw) continue;
    Switch& sw = result_.fabric.switches[places_[r]->node];
    std::optional<Width> width;
    for (const RecordPort& port : records_[r].ports) {
      if (port.width && (!width || lanes_of(*port.width) > lanes_of(*width))) width = port.width;
    }
    sw.speed = best_speed(records_[r]).value_or(sw.speed);
    sw.width = width.value_or(sw.width);
    const Make made{records_[r].vendor_id, std::min(records_[r].device_id, 0xffffU)};
    if (made == make_of(sw)) continue;
    sw.vendor_id = made.vendor_id;
    sw.device_id = made.device_id;
  }
}

// -- cables

std::optional<CableEnd> NetImport::end_of(u32 record, u32 port) const {
  if (!places_[record]) return std::nullopt;
  CableEnd end = *places_[record];
  if (end.kind == EndKind::hca && port > max_ports_per_hca) return std::nullopt;
  end.port = port;
  return end;
}

const RecordPort* NetImport::other_side(u32 remote, const RecordPort& line) const {
  for (const RecordPort& port : records_[remote].ports)
    if (port.number == line.remote_port) return &port;
  return nullptr;
}

void NetImport::check_other_side(const Record& owner, const RecordPort& line, const RecordPort& other) {
  if (other.remote == owner.id && other.remote_port == line.number) return;
  fail(line.line,
       fmt::format("'{}' port {} goes to '{}' port {}, but line {} says that that one goes to '{}' port {}", owner.id,
                   line.number, line.remote, line.remote_port, other.line, other.remote, other.remote_port));
}

// Both ends say the same in a dump; in ibsim's files each says what it can do.
void limit_to(const RecordPort& other, Cable& cable) {
  if (other.speed) cable.speed = std::min(cable.speed.value_or(*other.speed), *other.speed);
  if (other.width && (!cable.width || lanes_of(*other.width) < lanes_of(*cable.width))) cable.width = other.width;
}

// Both ends list a cable; it is made when the second one of them, or the only one, is met.
void NetImport::make_cable(PortRef from) {
  const Record& owner = records_[from.record];
  const RecordPort& line = owner.ports[from.index];
  auto found = by_id_.find(line.remote);
  if (found == by_id_.end())
    return warn(line.line, fmt::format("'{}' is not in this file; the cable to it is left out", line.remote));
  u32 remote = found->second;
  if (records_[remote].kind == RecordKind::router) return;  // said once, at its record
  if (line.remote_port < 1 || line.remote_port > records_[remote].port_count)
    return fail(line.line, fmt::format("'{}' has no port {}; its ports are 1 to {}", line.remote, line.remote_port,
                                       records_[remote].port_count));
  if (remote == from.record && line.remote_port == line.number)
    return fail(line.line, fmt::format("port {} of '{}' is cabled to itself", line.number, owner.id));
  const RecordPort* other = other_side(remote, line);
  if (other) check_other_side(owner, line, *other);
  if (other && std::pair(remote, other->number) < std::pair(from.record, line.number)) return;
  if (!other && dialect_ == Dialect::ibnetdiscover)
    warn(line.line, fmt::format("'{}' does not list this cable; it is taken from this line alone", line.remote));
  std::optional<CableEnd> a = end_of(from.record, line.number);
  std::optional<CableEnd> b = end_of(remote, line.remote_port);
  if (!a || !b) return warn(line.line, "the cable at a port that is left out is left out too");
  Cable cable{*a, *b, line.speed, line.width};
  if (other) limit_to(*other, cable);
  cables_.push_back({ordered(cable), line.line});
}

void NetImport::make_cables() {
  for (u32 r = 0; r < records_.size() && !error_; ++r) {
    if (records_[r].kind == RecordKind::router) {
      const std::string& name = records_[r].description.empty() ? records_[r].id : records_[r].description;
      warn(records_[r].line, fmt::format("router '{}' and its links ({}) are left out: there are no routers in SoftIB",
                                         name, records_[r].ports.size()));
      continue;
    }
    for (u32 p = 0; p < records_[r].ports.size() && !error_; ++p) make_cable({r, p});
  }
}

// Cables come in the order of their ends. What a link runs at below the best of both ends is the cable's doing.
void NetImport::add_cables() {
  std::sort(cables_.begin(), cables_.end(),
            [](const DraftCable& x, const DraftCable& y) { return cable_less(x.cable, y.cable); });
  for (const DraftCable& draft : cables_) {
    Cable cable{draft.cable.a, draft.cable.b, {}, {}};
    LinkRate best = link_rate(result_.fabric, cable);
    if (draft.cable.speed && *draft.cable.speed < best.speed) cable.speed = draft.cable.speed;
    if (draft.cable.width && lanes_of(*draft.cable.width) < lanes_of(best.width)) cable.width = draft.cable.width;
    lines_.emplace(Where{Part::cable, static_cast<u32>(result_.fabric.cables.size()), 0, 0}, draft.line);
    result_.fabric.cables.push_back(cable);
  }
}

// -- the whole

int NetImport::line_of_fault(Where where) const {
  for (Where each : {where, Where{Part::hca, where.a, where.b, 0}, Where{Part::host, where.a, 0, 0}}) {
    auto found = lines_.find(each);
    if (found != lines_.end()) return found->second;
    if (where.part != Part::port && where.part != Part::hca) break;
  }
  return 0;
}

Parsed<Imported> NetImport::run() {
  index();
  name_switches();
  draft_hosts();
  make_switches();
  make_hosts();
  set_switch_abilities();
  make_cables();
  if (error_) return refuse(*error_);
  add_cables();
  Fabric fabric = std::move(result_.fabric);
  if (fabric.hosts.empty()) return refuse(one_line(fmt::format("{}: there is no Ca record of a host in it", source_)));
  auto completed = complete_located(std::move(fabric));
  if (!completed) {
    fail(line_of_fault(completed.error().where), completed.error().text);
    return refuse(*error_);
  }
  result_.fabric = *std::move(completed);
  return std::move(result_);
}

Parsed<Imported> import_records(std::string_view text, std::string_view source, Dialect dialect) {
  auto records = read_records(text, source, dialect);
  if (!records) return tl::unexpected<Error>(records.error());
  return NetImport(source, dialect, *std::move(records)).run();
}

}  // namespace

Parsed<Imported> import_ibnetdiscover(std::string_view text, std::string_view source) {
  return import_records(text, source, Dialect::ibnetdiscover);
}

Parsed<Imported> import_ibsim(std::string_view text, std::string_view source) {
  return import_records(text, source, Dialect::ibsim);
}

}  // namespace softib::fabric::topo
