// The fabric file: docs/fabric-file.md says what each key means.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <unordered_map>

#include "base/error_text.h"
#include "fabric/complete.h"
#include "fabric/fabric.h"
#include "fabric/manager_keys.h"
#include "fabric/runtime.h"
#include "fabric/topo/yaml.h"
#include "fabric/yaml_reader.h"

namespace softib::fabric {

namespace {

constexpr u32 default_switch_ports = 40;

class Parser {
 public:
  Parser(const Source& source, const Overrides& overrides)
      : source_(source), yaml_(source.name), overrides_(overrides) {}

  Parsed<Fabric> run(const YAML::Node& root);

 private:
  void top(const YAML::Node& root);
  void head(const YAML::Node& root);
  void namespaces(const YAML::Node& node);
  void ipoib(const YAML::Node& node);
  void listed(const YAML::Node& root);
  void generated(const YAML::Node& root);
  void manager(const YAML::Node& root);
  bool reduces(const YAML::Node& node);
  void aggregation(const YAML::Node& root);
  void hosts(const YAML::Node& node, const YAML::Node& hcas);
  void host(const YAML::Node& node, const YAML::Node& default_hcas);
  void add_host(std::string name, const YAML::Node& at, const YAML::Node& hcas, HostKind kind = HostKind::server);
  std::vector<Hca> hcas(const YAML::Node& node, const YAML::Node& at);
  void hca(const YAML::Node& node, u32 index, Hca& result);
  void ports(const YAML::Node& node, u32 hca_index, const Port& like, Hca& result);
  Port port(const YAML::Node& node, Port result);
  void port_keys(const YAML::Node& node, Port& result);
  template <typename Node>
  void identity_keys(const YAML::Node& node, Node& result);
  void link_keys(const YAML::Node& node, Speed& speed, Width& width, Mtu& mtu);
  std::vector<u16> pkeys(const YAML::Node& node);
  void switches(const YAML::Node& node);
  void switch_entry(const YAML::Node& node);
  void add_switch(Switch sw, const YAML::Node& at);
  void cables(const YAML::Node& node);
  void cable(const YAML::Node& node);
  CableEnd end(const YAML::Node& node);
  CableEnd hca_end(const YAML::Node& node, u32 host, std::string_view rest);
  u32 end_port(const YAML::Node& node, std::string_view text, size_t count, std::string_view owner);
  void cable_everything(const YAML::Node& at, bool room_is_ours);
  void index_names();

  Speed speed(const YAML::Node& node, Speed fallback);
  Width width(const YAML::Node& node, Width fallback);
  Mtu mtu(const YAML::Node& node, Mtu fallback);

  void remember(Where where, const YAML::Node& node) { lines_.emplace(where, line_of(node)); }
  int line_of_fault(Where where) const;
  [[nodiscard]] u32 host_number() const { return static_cast<u32>(fabric_.hosts.size()); }

  const Source& source_;
  YamlReader yaml_;
  const Overrides& overrides_;
  Fabric fabric_;
  size_t devices_ = 0;
  std::map<Where, int> lines_;
  int topology_line_ = 0;  // what a generator made has no line of its own
  std::unordered_map<std::string, u32> host_index_;
  std::unordered_map<std::string, u32> switch_index_;
};

// -- words for numbers

Speed Parser::speed(const YAML::Node& node, Speed fallback) {
  std::vector<std::string_view> names;
  for (const SpeedRow& row : speed_table) names.push_back(row.name);
  size_t none = names.size();
  size_t chosen = yaml_.choice(node, "speed", names, none);
  return chosen == none ? fallback : speed_table[chosen].speed;
}

Width Parser::width(const YAML::Node& node, Width fallback) {
  if (!node.IsDefined()) return fallback;
  std::string value = yaml_.text(node);
  std::optional<Width> parsed = width_from_name(value);
  if (!parsed) yaml_.fail(node, fmt::format("'{}' is no width; known are: 1x, 2x, 4x, 8x, 12x", value.substr(0, 40)));
  return parsed.value_or(fallback);
}

Mtu Parser::mtu(const YAML::Node& node, Mtu fallback) {
  const std::vector<std::string_view> names{"256", "512", "1024", "2048", "4096"};
  size_t chosen = yaml_.choice(node, "MTU", names, names.size());
  return chosen == names.size() ? fallback : static_cast<Mtu>(chosen + 1);
}

std::vector<u16> Parser::pkeys(const YAML::Node& node) {
  std::vector<u16> result;
  if (!node.IsDefined()) return result;
  if (!node.IsSequence() || node.size() == 0) {
    yaml_.fail(node, "pkeys must be a list of numbers, as in [0xffff, 0x8001]");
    return result;
  }
  for (const YAML::Node& entry : node) {
    result.push_back(static_cast<u16>(yaml_.number(entry, "a P_Key", 1, 0xffff, 0xffff)));
    if ((result.back() & 0x7fff) == 0) yaml_.fail(entry, "a P_Key needs a partition number other than 0");
    if (!yaml_.ok()) break;
  }
  return result;
}

void Parser::link_keys(const YAML::Node& node, Speed& to_speed, Width& to_width, Mtu& to_mtu) {
  to_speed = speed(node["speed"], to_speed);
  to_width = width(node["width"], to_width);
  to_mtu = mtu(node["mtu"], to_mtu);
}

// -- hosts

// What a node says of itself, HCA or switch.
template <typename Node>
void Parser::identity_keys(const YAML::Node& node, Node& result) {
  result.description = yaml_.text(node["description"]);
  result.vendor_id = static_cast<u32>(yaml_.number(node["vendor_id"], "vendor_id", 1, 0xffffff, 0));
  result.device_id = static_cast<u32>(yaml_.number(node["device_id"], "device_id", 1, 0xffff, 0));
}

void Parser::port_keys(const YAML::Node& node, Port& result) {
  link_keys(node, result.speed, result.width, result.mtu);
  if (node["pkeys"].IsDefined()) result.pkeys = pkeys(node["pkeys"]);
}

Port Parser::port(const YAML::Node& node, Port result) {
  if (!yaml_.check_map(node, "a port", {"number", "guid", "lid", "lmc", "address", "speed", "width", "mtu", "pkeys"}))
    return result;
  result.number = static_cast<u8>(yaml_.number(node["number"], "number", 1, 254, result.number));
  result.guid = yaml_.guid(node["guid"]);
  result.lid = static_cast<u16>(yaml_.number(node["lid"], "lid", 1, ipc::lid_count - 1, 0));
  result.lmc = static_cast<u8>(yaml_.number(node["lmc"], "lmc", 0, most_lmc, 0));
  result.address = yaml_.ipv4(node["address"]);
  port_keys(node, result);
  return result;
}

void Parser::ports(const YAML::Node& node, u32 hca_index, const Port& like, Hca& result) {
  bool list = node.IsDefined() && node.IsSequence();
  u64 count = list ? node.size() : yaml_.number(node, "ports", 1, max_ports_per_hca, 1);
  if (count == 0 || count > max_ports_per_hca)
    yaml_.fail(node, fmt::format("an HCA has 1 to {} ports, not {}", max_ports_per_hca, count));
  for (u32 p = 0; p < count && yaml_.ok(); ++p) {
    Port next = like;
    next.number = static_cast<u8>(p + 1);
    result.ports.push_back(list ? port(node[p], next) : next);
    if (list) remember({Part::port, host_number(), hca_index, p}, node[p]);
  }
}

void Parser::hca(const YAML::Node& node, u32 index, Hca& result) {
  if (node.IsScalar()) {
    result.name = node.Scalar();
    result.ports = {Port{}};
    return;
  }
  if (!yaml_.check_map(node, "an HCA",
                       {"name", "model", "node_guid", "system_guid", "ports", "speed", "width", "mtu", "pkeys",
                        "description", "vendor_id", "device_id"}))
    return;
  result.name = yaml_.text(node["name"], result.name);
  std::vector<std::string_view> models = model_names();
  result.model = models[yaml_.choice(node["model"], "model", models, 0)];
  result.node_guid = yaml_.guid(node["node_guid"]);
  result.system_guid = yaml_.guid(node["system_guid"]);
  identity_keys(node, result);
  Port like;
  port_keys(node, like);
  ports(node["ports"], index, like, result);
}

// A number of HCAs, or a list of names and maps; one HCA where nothing is said.
std::vector<Hca> Parser::hcas(const YAML::Node& node, const YAML::Node& at) {
  bool list = node.IsDefined() && node.IsSequence();
  u64 count = list ? node.size() : yaml_.number(node, "hcas", 0, max_hcas_per_host, 1);
  if (count > max_hcas_per_host) yaml_.fail(node, fmt::format("a host has at most {} HCAs", max_hcas_per_host));
  devices_ += count;
  if (devices_ >= ipc::max_devices)
    yaml_.fail(at, fmt::format("too large: at most {} HCAs in a fabric", ipc::max_devices - 1));
  std::vector<Hca> result;
  for (u32 d = 0; d < count && yaml_.ok(); ++d) {
    Hca next;
    next.name = fmt::format("mlx5_{}", d);
    if (list) remember({Part::hca, host_number(), d, 0}, node[d]);
    if (list)
      hca(node[d], d, next);
    else
      next.ports = {Port{}};
    result.push_back(std::move(next));
  }
  return result;
}

void Parser::add_host(std::string name, const YAML::Node& at, const YAML::Node& with_hcas, HostKind kind) {
  if (!yaml_.ok()) return;
  if (fabric_.hosts.size() >= max_hosts) return yaml_.fail(at, fmt::format("at most {} hosts", max_hosts));
  remember({Part::host, host_number(), 0, 0}, at);
  std::vector<Hca> devices = hcas(with_hcas, at);
  fabric_.hosts.push_back({std::move(name), std::move(devices), kind});
}

void Parser::host(const YAML::Node& node, const YAML::Node& default_hcas) {
  if (node.IsScalar()) return add_host(node.Scalar(), node, default_hcas);
  if (!yaml_.check_map(node, "a host", {"name", "count", "hcas", "kind"})) return;
  HostKind kind = yaml_.choice(node["kind"], "kind of host", {"server", "aggregation"}, 0) == 1 ? HostKind::aggregation
                                                                                                : HostKind::server;
  const YAML::Node with_hcas = node["hcas"].IsDefined() ? node["hcas"] : default_hcas;
  u64 count = yaml_.number(node["count"], "count", 1, max_hosts, 1);
  if (!node["count"].IsDefined())
    return add_host(yaml_.text(node["name"], fmt::format("host{}", host_number())), node, with_hcas, kind);
  std::string prefix = yaml_.text(node["name"], "host");
  for (u64 i = 0; i < count && yaml_.ok(); ++i) add_host(fmt::format("{}{}", prefix, i), node, with_hcas, kind);
}

void Parser::hosts(const YAML::Node& node, const YAML::Node& default_hcas) {
  if (!node.IsDefined()) return yaml_.fail(0, "no hosts; say 'hosts: 2', or give a list of them");
  if (node.IsSequence()) {
    for (const YAML::Node& entry : node) {
      host(entry, default_hcas);
      if (!yaml_.ok()) return;
    }
    return;
  }
  if (!node.IsScalar()) return yaml_.fail(node, "hosts must be a number or a list");
  u64 count = yaml_.number(node, "hosts", 1, max_hosts, 0);
  for (u64 i = 0; i < count && yaml_.ok(); ++i) add_host(fmt::format("host{}", i), node, default_hcas);
}

// -- switches

void Parser::add_switch(Switch sw, const YAML::Node& at) {
  if (fabric_.switches.size() >= max_switches) return yaml_.fail(at, fmt::format("at most {} switches", max_switches));
  remember({Part::sw, static_cast<u32>(fabric_.switches.size()), 0, 0}, at);
  fabric_.switches.push_back(std::move(sw));
}

void Parser::switch_entry(const YAML::Node& node) {
  Switch sw;
  sw.name = fmt::format("sw{}", fabric_.switches.size());
  sw.ports = default_switch_ports;
  if (node.IsScalar()) {
    sw.name = node.Scalar();
    return add_switch(sw, node);
  }
  if (!yaml_.check_map(node, "a switch",
                       {"name", "ports", "node_guid", "lid", "speed", "width", "mtu", "port_guid", "system_guid", "lmc",
                        "enhanced_port0", "aggregation", "description", "vendor_id", "device_id"}))
    return;
  sw.name = yaml_.text(node["name"], sw.name);
  sw.ports = static_cast<u32>(yaml_.number(node["ports"], "ports", 1, max_switch_ports, sw.ports));
  sw.node_guid = yaml_.guid(node["node_guid"]);
  sw.lid = static_cast<u16>(yaml_.number(node["lid"], "lid", 1, ipc::lid_count - 1, 0));
  link_keys(node, sw.speed, sw.width, sw.mtu);
  sw.port_guid = yaml_.guid(node["port_guid"]);
  sw.system_guid = yaml_.guid(node["system_guid"]);
  sw.lmc = static_cast<u8>(yaml_.number(node["lmc"], "lmc", 0, most_lmc, 0));
  sw.enhanced_port0 = yaml_.boolean(node["enhanced_port0"], false);
  sw.aggregation = reduces(node["aggregation"]);
  identity_keys(node, sw);
  add_switch(sw, node);
}

void Parser::switches(const YAML::Node& node) {
  if (!node.IsDefined()) return;
  if (node.IsSequence()) {
    for (const YAML::Node& entry : node) {
      switch_entry(entry);
      if (!yaml_.ok()) return;
    }
    return;
  }
  if (!node.IsScalar()) return yaml_.fail(node, "switches must be a number or a list");
  u64 count = yaml_.number(node, "switches", 0, max_switches, 0);
  for (u64 i = 0; i < count; ++i) add_switch({.name = fmt::format("sw{}", i), .ports = default_switch_ports}, node);
}

// -- cables

u32 Parser::end_port(const YAML::Node& node, std::string_view text, size_t count, std::string_view owner) {
  std::optional<u64> port = parse_number(text);
  if (port && *port >= 1 && *port <= count) return static_cast<u32>(*port);
  yaml_.fail(node, fmt::format("{} has no port '{}'; its ports are 1 to {}", owner, text.substr(0, 40), count));
  return 1;
}

CableEnd Parser::hca_end(const YAML::Node& node, u32 host, std::string_view rest) {
  size_t slash = rest.find('/');
  std::string_view name = rest.substr(0, slash);
  const Host& owner = fabric_.hosts[host];
  auto found = std::find_if(owner.hcas.begin(), owner.hcas.end(), [&](const Hca& hca) { return hca.name == name; });
  if (found == owner.hcas.end()) {
    std::vector<std::string_view> names;
    for (const Hca& hca : owner.hcas) names.emplace_back(hca.name);
    yaml_.fail(node, fmt::format("host '{}' has no HCA '{}'{}", owner.name, name.substr(0, 40), hint(name, names)));
    return {};
  }
  std::string_view port = slash == std::string_view::npos ? "1" : rest.substr(slash + 1);
  u32 number = end_port(node, port, found->ports.size(), fmt::format("{}/{}", owner.name, found->name));
  return {EndKind::hca, host, static_cast<u32>(found - owner.hcas.begin()), number};
}

CableEnd Parser::end(const YAML::Node& node) {
  if (!yaml_.ok()) return {};
  std::string text = yaml_.text(node);
  size_t slash = text.find('/');
  if (slash == std::string::npos) {
    yaml_.fail(node, fmt::format("cable end '{}' must be SWITCH/PORT, HOST/HCA/PORT, or HOST/HCA for port 1{}",
                                 text.substr(0, 40),
                                 host_index_.contains(text) ? "; this is a host, so name its HCA too" : ""));
    return {};
  }
  std::string name = text.substr(0, slash);
  std::string_view rest = std::string_view(text).substr(slash + 1);
  if (auto host = host_index_.find(name); host != host_index_.end()) return hca_end(node, host->second, rest);
  if (auto found = switch_index_.find(name); found != switch_index_.end()) {
    u32 port = end_port(node, rest, fabric_.switches[found->second].ports, "switch '" + name + "'");
    return {EndKind::sw, found->second, 0, port};
  }
  yaml_.fail(
      node, fmt::format("cable end '{}': there is no host and no switch '{}'", text.substr(0, 80), name.substr(0, 40)));
  return {};
}

// [a, b] or {ends: [a, b], speed: EDR, width: 4x}
void Parser::cable(const YAML::Node& node) {
  bool plain = node.IsSequence();
  if (!plain && !yaml_.check_map(node, "a cable", {"ends", "speed", "width"})) return;
  const YAML::Node ends = plain ? node : node["ends"];
  if (!ends.IsDefined() || !ends.IsSequence() || ends.size() != 2)
    return yaml_.fail(node, "a cable has two ends, as in [host0/mlx5_0/1, sw0/1]");
  Cable result;
  result.a = end(ends[0]);
  result.b = end(ends[1]);
  if (!plain && node["speed"].IsDefined()) result.speed = speed(node["speed"], Speed::sdr);
  if (!plain && node["width"].IsDefined()) result.width = width(node["width"], Width::x4);
  remember({Part::cable, static_cast<u32>(fabric_.cables.size()), 0, 0}, node);
  fabric_.cables.push_back(result);
}

void Parser::index_names() {
  for (u32 i = 0; i < fabric_.hosts.size(); ++i) host_index_.emplace(fabric_.hosts[i].name, i);
  for (u32 i = 0; i < fabric_.switches.size(); ++i) switch_index_.emplace(fabric_.switches[i].name, i);
}

void Parser::cables(const YAML::Node& node) {
  if (!node.IsSequence()) return yaml_.fail(node, "cables must be a list");
  for (const YAML::Node& entry : node) {
    cable(entry);
    if (!yaml_.ok()) return;
  }
}

// No cables given: each HCA port goes to the first switch, in order.
void Parser::cable_everything(const YAML::Node& at, bool room_is_ours) {
  if (fabric_.switches.empty()) return;
  std::vector<CableEnd> ends;
  for (u32 h = 0; h < fabric_.hosts.size(); ++h)
    for (u32 d = 0; d < fabric_.hosts[h].hcas.size(); ++d)
      for (u32 p = 0; p < fabric_.hosts[h].hcas[d].ports.size(); ++p) ends.push_back({EndKind::hca, h, d, p + 1});
  Switch& sw = fabric_.switches[0];
  size_t room = room_is_ours ? max_switch_ports : sw.ports;
  if (ends.size() > room)
    return yaml_.fail(at, fmt::format("{} HCA ports do not fit on switch '{}' with {} ports; list switches and cables",
                                      ends.size(), sw.name, room));
  sw.ports = std::max(sw.ports, static_cast<u32>(ends.size()));
  for (u32 i = 0; i < ends.size(); ++i) fabric_.cables.push_back({ends[i], {EndKind::sw, 0, 0, i + 1}, {}, {}});
}

// -- the whole

// A word, or a map.
void Parser::namespaces(const YAML::Node& node) {
  constexpr std::array uses{Namespaces::automatic, Namespaces::on, Namespaces::off};
  const bool is_map = node.IsDefined() && node.IsMap();
  if (is_map && !yaml_.check_map(node, "namespaces", {"use", "pid"})) return;
  fabric_.namespaces = uses[yaml_.choice(is_map ? node["use"] : node, "use of namespaces", {"auto", "on", "off"}, 0)];
  if (is_map) fabric_.own_pids = yaml_.boolean(node["pid"], false);
}

void Parser::ipoib(const YAML::Node& node) {
  if (!node.IsDefined()) return;
  const bool is_map = node.IsMap();
  if (is_map && !yaml_.check_map(node, "ipoib", {"mode", "mtu"})) return;
  Ipoib& ipoib = fabric_.ipoib;
  const auto mode = yaml_.choice(is_map ? node["mode"] : node, "mode of IPoIB", {"datagram", "connected"}, 0);
  ipoib.mode = mode == 1 ? IpoibMode::connected : IpoibMode::datagram;
  if (is_map)
    ipoib.mtu = static_cast<u32>(
        yaml_.number(node["mtu"], "MTU of IPoIB", least_ipoib_mtu, most_ipoib_mtu(ipoib.mode), ipoib.mtu));
  if (fabric_.link_layer == LinkLayer::ethernet) yaml_.fail(node, "on Ethernet there is no IPoIB; leave this out");
}

void Parser::head(const YAML::Node& root) {
  fabric_.name = overrides_.name.value_or(yaml_.text(root["fabric"], fabric_.name));
  if (!valid_fabric_name(fabric_.name) && root["fabric"].IsDefined()) remember({Part::fabric, 0, 0, 0}, root["fabric"]);
  LinkLayer layer = yaml_.choice(root["link_layer"], "link layer", {"infiniband", "ethernet"}, 0) == 1
                        ? LinkLayer::ethernet
                        : LinkLayer::infiniband;
  fabric_.link_layer = overrides_.link_layer.value_or(layer);
  fabric_.pace = yaml_.boolean(root["pace"], false);
  if (fabric_.pace && fabric_.link_layer == LinkLayer::ethernet)
    yaml_.fail(root["pace"], "only links of InfiniBand can be paced; leave this out or say false");
  namespaces(root["namespaces"]);
  ipoib(root["ipoib"]);
}

void Parser::generated(const YAML::Node& root) {
  for (const char* key : {"hosts", "hcas", "switches", "cables"})
    if (root[key].IsDefined())
      return yaml_.fail(root[key], fmt::format("'{}' can't stand beside 'topology', which makes hosts, switches and "
                                               "cables itself",
                                               key));
  const YAML::Node node = root["topology"];
  topology_line_ = line_of(node);
  std::optional<topo::Topology> topology = topo::read_topology(yaml_, node);
  if (!topology) return;
  auto made = topo::generate(*topology);
  if (!made) return yaml_.fail(node, made.error().text);
  fabric_.hosts = std::move(made->hosts);
  fabric_.switches = std::move(made->switches);
  fabric_.cables = std::move(made->cables);
  index_names();
}

void Parser::listed(const YAML::Node& root) {
  hosts(root["hosts"], root["hcas"]);
  switches(root["switches"]);
  if (!yaml_.ok()) return;
  bool own_switch = !root["switches"].IsDefined();
  if (own_switch) fabric_.switches.push_back({.name = "sw0", .ports = default_switch_ports});
  index_names();
  if (root["cables"].IsDefined())
    cables(root["cables"]);
  else
    cable_everything(own_switch ? root["hosts"] : root["switches"], own_switch);
}

void Parser::top(const YAML::Node& root) {
  if (!yaml_.check_map(root, "the fabric",
                       {"fabric", "link_layer", "sm", "partitions", "pace", "namespaces", "ipoib", "aggregation",
                        "topology", "hosts", "hcas", "switches", "cables"}))
    return;
  head(root);
  if (root["topology"].IsDefined())
    generated(root);
  else
    listed(root);
  aggregation(root);
  manager(root);
}

// A switch's, or the whole fabric's.
bool Parser::reduces(const YAML::Node& node) {
  const bool wanted = yaml_.boolean(node, false);
  if (wanted && fabric_.link_layer == LinkLayer::ethernet)
    yaml_.fail(node, "only switches of InfiniBand have aggregation nodes; leave this out");
  return wanted;
}

void Parser::aggregation(const YAML::Node& root) {
  if (!reduces(root["aggregation"])) return;
  for (Switch& sw : fabric_.switches) sw.aggregation = true;
}

// After the hosts, on whose ports a manager may run.
void Parser::manager(const YAML::Node& root) {
  if (!yaml_.ok()) return;
  read_manager(
      yaml_, root["sm"], source_, [this](const YAML::Node& node) { return end(node); }, fabric_);
  read_partitions(yaml_, root["partitions"], source_, fabric_);
}

// The line of a thing, or of the nearest thing that holds it and has one.
int Parser::line_of_fault(Where where) const {
  auto line = [this](Where w) {
    auto found = lines_.find(w);
    return found == lines_.end() ? 0 : found->second;
  };
  if (int found = line(where)) return found;
  if (where.part == Part::port)
    if (int found = line({Part::hca, where.a, where.b, 0})) return found;
  if (where.part == Part::port || where.part == Part::hca)
    if (int found = line({Part::host, where.a, 0, 0})) return found;
  return topology_line_;
}

Parsed<Fabric> Parser::run(const YAML::Node& root) {
  top(root);
  if (yaml_.ok()) {
    auto completed = complete_located(std::move(fabric_));
    if (completed) return *std::move(completed);
    yaml_.fail(line_of_fault(completed.error().where), completed.error().text);
  }
  return refuse(one_line(yaml_.error()));
}

// yaml-cpp speaks of its grammar.
std::string_view in_plain_words(const YAML::Exception& error) {
  const std::string_view text = error.msg;
  const auto says = [&](std::string_view part) { return text.find(part) != text.npos; };
  if (says("token") || says("tab") || says("illegal block entry")) return " (is there a tab? YAML wants spaces)";
  if (says("end of map") || says("end of sequence"))
    return " (what belongs together stands equally far to the right; is a line here or just above shifted, or a "
           "bracket "
           "or a '-' missing?)";
  if (says("illegal map value"))
    return " (a second ': ' in one line; put the value in quotes, or on a line of its own)";
  return "";
}

tl::unexpected<Error> syntax_error(std::string_view source, const YAML::Exception& error) {
  std::string place = error.mark.is_null() ? "" : fmt::format(":{}", error.mark.line + 1);
  return refuse(one_line(fmt::format("{}{}: {}{}", source, place, error.msg, in_plain_words(error))));
}

}  // namespace

Parsed<Fabric> parse(std::string_view text, std::string_view source, const Overrides& overrides) {
  if (text.size() > largest_description) return refuse(fmt::format("{}: larger than 64 MiB", source));
  try {
    YAML::Node root = YAML::Load(std::string(text));
    if (!root.IsDefined() || root.IsNull()) return refuse(fmt::format("{}: the file is empty", source));
    return Parser(Source{source, text}, overrides).run(root);
  } catch (const YAML::Exception& error) {
    return syntax_error(source, error);
  }
}

Parsed<Fabric> load(const std::string& path, const Overrides& overrides) {
  auto text = read_file(path);
  if (!text) return refuse(fmt::format("{}: {}", path, error_text(text.error())));
  return parse(*text, path, overrides);
}

}  // namespace softib::fabric
