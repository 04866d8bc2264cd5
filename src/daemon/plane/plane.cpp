#include "daemon/plane/plane.h"

#include <infiniband/verbs.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <utility>

#include "base/byte_order.h"
#include "daemon/plane/manager.h"
#include "daemon/plane/port_counters.h"
#include "daemon/port_record.h"
#include "wire/pkey.h"

namespace softib::daemon {

namespace {

using net::PortRef;

ipc::Gid gid_of(u64 prefix, u64 guid) {
  ipc::Gid gid;
  const u64 parts[2] = {big_endian(prefix), big_endian(guid)};
  std::memcpy(gid.raw, parts, sizeof gid.raw);
  return gid;
}

fabric::PortStatus status_of(const net::PortView& view) {
  fabric::PortStatus status;
  status.state = view.state;
  status.phys_state = static_cast<fabric::PhysState>(view.physical);
  status.lid = view.lid;
  status.sm_lid = view.sm_lid;
  status.lmc = view.lmc;
  status.sm_sl = view.sm_sl;
  status.capabilities = view.capabilities;
  status.speed = view.speed;
  status.width = view.width;
  status.mtu = view.active_mtu;
  status.pkeys.assign(view.pkeys.begin(), view.pkeys.end());
  for (u64 guid : view.guids)
    if (guid) status.gids.push_back({gid_of(view.gid_prefix, guid), ipc::GidType::ib});
  return status;
}

}  // namespace

Plane::Plane(const fabric::Fabric& fabric, ipc::Segment& segment, Watcher& watcher)
    : segment_(segment),
      layer_(*this),
      files_(watcher),
      network_(net::Network::create(fabric, *this)),
      shapes_(segment, *network_, fabric.pace),
      accounts_(segment, *network_) {
  number_ports(fabric);
  for (u32 index = 1; index < refs_.size(); ++index)
    write_status(segment_.ports[index], status_of(network_->port(refs_[index])));
  find_places(fabric);
  start_managers();
}

Plane::~Plane() = default;

void Plane::number_ports(const fabric::Fabric& fabric) {
  refs_.push_back({});
  indices_.resize(network_->node_count());
  for (u32 host = 0; host < fabric.hosts.size(); ++host) {
    for (u32 hca = 0; hca < fabric.hosts[host].hcas.size(); ++hca) {
      const u32 node = network_->hca_node(host, hca);
      indices_[node].resize(network_->port_count(node) + 1U);
      for (u8 port = 1; port <= network_->port_count(node); ++port) {
        indices_[node][port] = static_cast<u32>(refs_.size());
        refs_.push_back({node, port});
      }
    }
  }
  issm_files_.resize(refs_.size());
  is_changed_.resize(refs_.size());
  violations_.resize(refs_.size());
}

u32 Plane::index_of(PortRef ref) const {
  const auto& ports = indices_[ref.node];
  return ref.port < ports.size() ? ports[ref.port] : 0;
}

// -- subnet managers

// One for each subnet: on its first switch, else on its first port.
void Plane::find_places(const fabric::Fabric& fabric) {
  if (fabric.sm == fabric::SubnetManager::none) return;
  preset_lids(fabric);
  if (fabric.sm != fabric::SubnetManager::builtin) return;
  manager_options_ = manager_options(fabric);
  places_ = places_for_managers(*network_);
}

void Plane::start_managers() {
  managers_stopped_ = false;
  touched_ = true;
  for (PortRef place : places_)
    if (network_->is_on(place.node) && !manager_at(place))
      managers_.push_back(std::make_unique<Manager>(*network_, place, manager_options_));
}

void Plane::stop_managers() {
  managers_stopped_ = true;
  remove_managers(std::nullopt);
}

void Plane::remove_managers(std::optional<u32> node) {
  const auto dying = std::stable_partition(managers_.begin(), managers_.end(),
                                           [&](const auto& manager) { return node && manager->place().node != *node; });
  std::vector<PortRef> left;
  for (auto manager = dying; manager != managers_.end(); ++manager) left.push_back((*manager)->place());
  managers_.erase(dying, managers_.end());
  // The traps that this brings must find them gone.
  for (PortRef place : left) network_->set_capabilities(place, IBV_PORT_SM, false);
}

void Plane::power(u32 node, bool on) {
  if (!on) remove_managers(node);
  network_->power(node, on);
  if (on && !managers_stopped_) start_managers();
}

// Those of the fabric file stay, also where it came from another cluster.
void Plane::preset_lids(const fabric::Fabric& fabric) {
  for (u32 i = 0; i < fabric.switches.size(); ++i)
    network_->preset_lid({network_->switch_node(i), 0}, fabric.switches[i].lid, fabric.switches[i].lmc);
  u32 index = 0;
  for (const fabric::Host& host : fabric.hosts)
    for (const fabric::Hca& hca : host.hcas)
      for (const fabric::Port& port : hca.ports) network_->preset_lid(refs_[++index], port.lid, port.lmc);
}

Plane::Manager* Plane::manager_at(PortRef ref) const {
  for (const auto& manager : managers_)
    if (manager->place() == ref) return manager.get();
  return nullptr;
}

std::vector<Plane::ManagerView> Plane::managers() const {
  std::vector<ManagerView> views;
  for (const auto& manager : managers_) views.push_back({manager->place(), manager->state()});
  return views;
}

std::vector<u32> Plane::issm_ports() const {
  std::vector<u32> ports;
  for (u32 port = 1; port < issm_files_.size(); ++port)
    if (issm_files_[port]) ports.push_back(port);
  return ports;
}

bool Plane::subnet_up() const {
  return std::all_of(managers_.begin(), managers_.end(), [](const auto& manager) { return manager->subnet_up(); });
}

u64 Plane::on_time(u64 now) {
  now_ = now;
  touched_ = false;
  u64 next = layer_.on_time(now);
  for (const auto& manager : managers_) next = std::min(next, manager->on_time(now));
  return std::min(next, network_->on_time(now));  // the last: what the others sent has its time there
}

// -- what the network tells

void Plane::received(PortRef at, const wire::Packet& packet) {
  touched_ = true;  // also within on_time(): it may set a timer of somebody who has been asked for his already
  Manager* manager = manager_at(at);
  const u32 index = index_of(at);
  // Requests for a manager are never an agent's; responses tell by their transaction id whose they are.
  if (manager && !wire::is_response(packet.mad) && manager->wants(packet)) return manager->received(packet, now_);
  if (index && services_ && packet.destination_qp == 1 && services_->received(index, packet, now_)) return;
  if (index && layer_.received(index, packet, now_)) return;
  if (manager) manager->received(packet, now_);
}

void Plane::port_changed(PortRef ref) {
  const u32 index = index_of(ref);
  if (!index) {
    routes_changed_ = true;  // a link between switches
    return;
  }
  if (!is_changed_[index]) {
    is_changed_[index] = true;
    changes_.push_back({index, read_status(segment_.ports[index]), {}});
  }
  write_status(segment_.ports[index], status_of(network_->port(ref)));
  routes_changed_ = true;
}

void Plane::routes_changed(u32) { routes_changed_ = true; }

void Plane::reregister(PortRef ref) {
  if (const u32 index = index_of(ref)) reregistered_.push_back(index);
}

std::vector<Plane::PortChange> Plane::take_changes() {
  for (PortChange& change : changes_) {
    change.now = read_status(segment_.ports[change.port]);
    is_changed_[change.port] = false;
  }
  std::erase_if(changes_, [](const PortChange& change) { return change.before == change.now; });
  return std::exchange(changes_, {});
}

fabric::PortStatus Plane::status(u32 port) const { return read_status(segment_.ports[port]); }

bool Plane::take_routes_changed() { return std::exchange(routes_changed_, false); }

u16 Plane::pkey_or_first(u32 port, u16 pkey) const { return pkey ? pkey : segment_.ports[port].pkeys[0]; }

Way Plane::find(RouteOwner owner, u32 port, u16 dlid, u8 sl, u16 pkey) {
  if (port == 0 || port >= refs_.size()) return {};
  net::Path path = network_->walk(refs_[port], dlid, sl, pkey_or_first(port, pkey));
  Way way;
  // Whether the keys of both ends go together is looked at with each message.
  const bool refused = path.loss == net::Loss::bad_pkey && !path.leaving && index_of(path.end) != 0;
  if (refused) path.loss = net::Loss::none;
  const bool arrived = path.loss == net::Loss::none;
  if (const u32 end = arrived ? index_of(path.end) : 0; end != 0) {
    way.ports = {end};
    way.there = shapes_.of(path.hops);
    // A cable matters in both directions or in none.
    if (!way.there.empty()) way.back = shapes_.of(net::reversed(path.hops));
  }
  accounts_.take(owner, std::move(path));
  return way;
}

std::vector<u32> Plane::lossy_links(std::span<const net::Hop> hops) {
  std::vector<net::Hop> lossy;
  for (const net::Hop& hop : hops)
    if (const net::LinkQuality quality = network_->quality(hop.out); quality.drop > 0 || quality.bit_error_rate > 0)
      lossy.push_back(hop);
  return shapes_.of(lossy);
}

// The sender's own port is always reached: its HCA hands the packet to other members there. Of the links, the first
// holds up the sender; further on, copies get lost one by one, and take nobody's time.
Way Plane::find_multicast(RouteOwner owner, u32 port, u16 mlid, u8 sl) {
  if (port == 0 || port >= refs_.size()) return {};
  const std::vector<net::Path> paths = network_->walk_multicast(refs_[port], mlid, sl, pkey_or_first(port, 0));
  std::map<u32, std::vector<u32>> copies{{port, {}}};  // the lossy links of each
  bool lossy = false;
  Way way;
  for (const net::Path& path : paths) {
    if (path.hops.empty()) continue;
    if (way.there.empty()) way.there = shapes_.of(std::span(path.hops).first(1));
    const u32 end = path.loss == net::Loss::none ? index_of(path.end) : 0;
    if (!end) continue;
    const auto& links = copies[end] = lossy_links(std::span(path.hops).subspan(1));
    lossy |= !links.empty();
  }
  for (const auto& [end, links] : copies) {
    way.ports.push_back(end);
    if (!lossy) continue;
    way.back.push_back(static_cast<u32>(links.size()));
    way.back.insert(way.back.end(), links.begin(), links.end());
  }
  accounts_.take_tree(owner, paths);
  return way;
}

void Plane::settle_traffic() {
  accounts_.settle_all();
  shapes_.settle();
}

// QPs refuse at the speed of the data path and count in the segment; PortInfo's counters follow when they matter.
void Plane::settle_violations(u32 port) {
  const ipc::Port& record = segment_.ports[port];
  const Violations now{record.pkey_violations.load(std::memory_order_relaxed),
                       record.qkey_violations.load(std::memory_order_relaxed)};
  Violations& known = violations_[port];
  network_->add_violations(refs_[port], now.p_key - known.p_key, now.q_key - known.q_key);
  known = now;
}

void Plane::about_to_show(PortRef ref) {
  if (const u32 port = index_of(ref)) settle_violations(port);
}

void Plane::key_refused(ipc::KeyViolation kind, u32 source, u32 target, net::BadKey packet) {
  if (source == 0 || source >= refs_.size() || target == 0 || target >= refs_.size()) return;
  settle_violations(target);
  const ipc::Port& from = segment_.ports[source];
  const ipc::Port& to = segment_.ports[target];
  packet.slid = from.lid;
  packet.dlid = to.lid;
  std::memcpy(packet.source.data(), from.gids[0].raw, packet.source.size());
  std::memcpy(packet.destination.data(), to.gids[0].raw, packet.destination.size());
  touched_ = true;
  const bool is_p_key = kind == ipc::KeyViolation::p_key;
  network_->tell_bad_key(refs_[target], is_p_key ? wire::TrapNumber::bad_p_key : wire::TrapNumber::bad_q_key, packet);
}

net::Network::Counters Plane::counters(u32 port) {
  settle_traffic();
  return network_->counters(refs_[port]);
}

u64 Plane::counter(u32 port, ipc::PortCounter counter) {
  accounts_.settle_all();
  return counter_of_pma(*network_, refs_[port], counter);
}

// -- umad files

Result<Plane::Opened> Plane::open_umad(u32 port) {
  if (port == 0 || port >= refs_.size()) return fail(ENXIO);
  const u32 file = layer_.open(port);
  auto socket = files_.add(file);
  if (!socket) {
    layer_.close(file);
    return fail(socket.error());
  }
  return Opened{file, std::move(*socket)};
}

Result<Plane::Opened> Plane::open_issm(u32 port) {
  if (port == 0 || port >= refs_.size()) return fail(ENXIO);
  if (issm_files_[port]) return fail(EAGAIN);
  auto opened = open_umad(port);
  if (!opened) return opened;
  issm_files_[port] = opened->file;
  touched_ = true;
  network_->set_capabilities(refs_[port], IBV_PORT_SM, true);
  return opened;
}

void Plane::umad_readable(u32 file, u64 now) {
  now_ = now;
  touched_ = true;
  const bool open = files_.read(file, [&](const ipc::UmadFrame& frame, std::span<const u8> mad) {
    static_cast<void>(layer_.write(file, frame, mad, now));  // what is refused is lost, as the program has gone on
  });
  if (!open) close_umad(file);
}

// The program's end can but be closed: who reads there is told so.
void Plane::hang_up(u32 port) {
  for (const u32 file : layer_.files_of(port)) close_umad(file);
}

void Plane::close_umad(u32 file) {
  touched_ = true;
  files_.remove(file);
  layer_.close(file);
  for (u32 port = 1; port < issm_files_.size(); ++port) {
    if (issm_files_[port] != file) continue;
    issm_files_[port] = 0;
    network_->set_capabilities(refs_[port], IBV_PORT_SM, false);
  }
}

void Plane::send(u32 port, const wire::Packet& packet) { network_->send(refs_[port], packet); }

void Plane::send_general(u32 port, const wire::Packet& packet, u64 now) {
  now_ = now;
  touched_ = true;
  if (port > 0 && port < refs_.size()) network_->send(refs_[port], packet);
}

void Plane::deliver(u32 file, const ipc::UmadFrame& frame, std::span<const u8> mad) {
  files_.deliver(file, frame, mad);
}

u16 Plane::lid(u32 port) const { return segment_.ports[port].lid; }

u16 Plane::pkey(u32 port, u16 index) const {
  const auto keys = pkeys_of(segment_.ports[port]);
  return index < keys.size() ? keys[index] : 0xffff;
}

u16 Plane::pkey_index(u32 port, u16 pkey) const {
  const auto keys = pkeys_of(segment_.ports[port]);
  return wire::place_of_key(keys, pkey).value_or(0);
}

wire::GidBytes Plane::gid(u32 port, u8 index) const {
  wire::GidBytes bytes{};
  const auto gids = gids_of(segment_.ports[port]);
  if (index < gids.size()) std::memcpy(bytes.data(), gids[index].raw, bytes.size());
  return bytes;
}

}  // namespace softib::daemon
