// Topology files of ibutils: systems, and the cables between their front panels.
//
//   MTS9600 GZ1 CFG: leaf3=R,spine1=R
//      L1/P1 -4X-10G-> MT23108 H-1 P1
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>

#include "fabric/complete.h"
#include "fabric/topo/clos.h"
#include "fabric/topo/ibnl.h"
#include "fabric/topo/import.h"
#include "fabric/topo/lines.h"
#include "fabric/topo/net_records.h"
#include "fabric/topo/node_names.h"
#include "fabric/topo/sort.h"
#include "fabric/yaml_reader.h"

namespace softib::fabric::topo {

namespace {

constexpr u32 mellanox_oui = 0x0002c9;

struct PanelPort {
  u32 system = 0;
  std::string name;
};

struct PanelCable {
  int line = 0;
  PanelPort a;
  PanelPort b;
  LinkLimits limits;
};

struct System {
  int line = 0;
  std::string type;
  std::string name;
  BoardOptions options;
  bool declared = false;  // by a header, not only as a cable's other end
  ExpandedSystem expanded;
  std::vector<CableEnd> places;  // of the expanded nodes, port 0
};

class TopoImport {
 public:
  TopoImport(std::string_view source, const IbnlLibrary& library) : source_(source), library_(library) {}

  Parsed<Imported> run(std::string_view text);

 private:
  void line(std::string_view text);
  void header(const std::vector<std::string_view>& words);
  void options(const std::vector<std::string_view>& words, System& system);
  void connection(const Arrow& arrow);
  u32 system(std::string_view type, std::string_view name);
  void open(System& system);
  void place_switch(System& system, const ExpandedNode& node, bool alone);
  void place_hca(System& system, const ExpandedNode& node, std::optional<u32>& host);
  void wire_inside(const System& system);
  void wire(const PanelCable& cable);
  std::optional<CableEnd> find_plug(const PanelPort& port, LinkLimits& limits, int line);
  std::optional<CableEnd> end_of(const System& system, NodePort at) const;
  void add_cable(CableEnd a, CableEnd b, const LinkLimits& limits, int line);
  Parsed<Imported> finish();

  void fail(int line, std::string_view text) {
    if (!error_) error_ = one_line(fmt::format("{}:{}: {}", source_, line, text));
  }

  std::string source_;
  const IbnlLibrary& library_;
  int number_ = 0;
  std::vector<System> systems_;
  std::map<std::string, u32, std::less<>> by_name_;
  std::optional<u32> current_;
  std::vector<PanelCable> cables_;
  UniqueNames taken_;
  std::map<Where, int> lines_;
  std::optional<std::string> error_;
  Imported result_;
};

// -- reading

u32 TopoImport::system(std::string_view type, std::string_view name) {
  auto [entry, fresh] = by_name_.emplace(std::string(name), static_cast<u32>(systems_.size()));
  if (fresh) {
    System added;
    added.line = number_;
    added.type = type;
    added.name = name;
    systems_.push_back(std::move(added));
  } else if (const System& other = systems_[entry->second]; other.type != type) {
    fail(number_, fmt::format("'{}' is a {} here, but a {} in line {}", name, type, other.type, other.line));
  }
  return entry->second;
}

// "CFG: leaf1=R, leaf2=12x"
void TopoImport::options(const std::vector<std::string_view>& words, System& system) {
  for (size_t i = 3; i < words.size(); ++i)
    for (std::string_view rest = words[i]; !rest.empty();) {
      size_t comma = std::min(rest.find(','), rest.size());
      std::string_view option = rest.substr(0, comma);
      rest.remove_prefix(std::min(comma + 1, rest.size()));
      size_t equals = option.find('=');
      if (option.empty()) continue;
      if (equals == std::string_view::npos || equals == 0 || equals + 1 == option.size())
        return fail(number_, fmt::format("'{}' is no board option such as leaf1=R", option.substr(0, 40)));
      system.options[std::string(option.substr(0, equals))] = option.substr(equals + 1);
    }
}

// "TYPE NAME", "TYPE NAME CFG: ..."
void TopoImport::header(const std::vector<std::string_view>& words) {
  if (words.size() < 2 || (words.size() > 2 && words[2] != "CFG:"))
    return fail(number_, "a system is written TYPE NAME, and a connection PORT -> TYPE NAME PORT");
  current_ = system(words[0], words[1]);
  System& entry = systems_[*current_];
  if (std::exchange(entry.declared, true))
    return fail(number_, fmt::format("there is a system '{}' already, in line {}", entry.name, entry.line));
  entry.line = number_;
  options(words, entry);
}

void TopoImport::connection(const Arrow& arrow) {
  if (!current_) return fail(number_, "a connection belongs behind the system that it starts from");
  if (arrow.target.size() != 3) return fail(number_, "a connection leads to TYPE NAME PORT");
  u32 other = system(arrow.target[0], arrow.target[1]);
  cables_.push_back(
      {number_, {*current_, std::string(arrow.port)}, {other, std::string(arrow.target[2])}, arrow.limits});
}

void TopoImport::line(std::string_view text) {
  if (auto arrow = split_arrow(text)) return *arrow ? connection(**arrow) : fail(number_, arrow->error());
  std::vector<std::string_view> words = words_of(text);
  if (!words.empty()) header(words);
}

// -- building

// Devices are called by their numbers: "MT48436".
u32 device_id_of(std::string_view type) {
  std::optional<u64> number = type.starts_with("MT") ? parse_number(type.substr(2)) : std::nullopt;
  return number && *number <= 0xffff ? static_cast<u32>(*number) : 0;
}

void TopoImport::place_switch(System& system, const ExpandedNode& node, bool alone) {
  std::string name = alone ? system.name : fmt::format("{}.{}", system.name, node.path);
  auto index = static_cast<u32>(result_.fabric.switches.size());
  Switch sw{.name = taken_.take(as_switch_name(name, fmt::format("switch{}", index))), .ports = node.ports};
  sw.device_id = device_id_of(node.type);
  if (sw.device_id) sw.vendor_id = mellanox_oui;
  system.places.push_back({EndKind::sw, index, 0, 0});
  lines_.emplace(Where{Part::sw, index, 0, 0}, system.line);
  result_.fabric.switches.push_back(std::move(sw));
}

void TopoImport::place_hca(System& system, const ExpandedNode& node, std::optional<u32>& host) {
  auto& hosts = result_.fabric.hosts;
  if (!host) {
    host = static_cast<u32>(hosts.size());
    lines_.emplace(Where{Part::host, *host, 0, 0}, system.line);
    hosts.push_back({taken_.take(as_host_name(system.name, fmt::format("host{}", *host))), {}});
  }
  auto& hcas = hosts[*host].hcas;
  if (node.ports > max_ports_per_hca || hcas.size() >= max_hcas_per_host)
    return fail(system.line,
                fmt::format("'{}' has {} HCAs, the last with {} ports; {} and {} are the limits", system.name,
                            hcas.size() + 1, node.ports, max_hcas_per_host, max_ports_per_hca));
  Hca hca{.name = fmt::format("mlx5_{}", hcas.size())};
  hca.device_id = device_id_of(node.type);
  if (hca.device_id) hca.vendor_id = mellanox_oui;
  for (u32 p = 1; p <= node.ports; ++p) hca.ports.push_back({.number = static_cast<u8>(p)});
  system.places.push_back({EndKind::hca, *host, static_cast<u32>(hcas.size()), 0});
  hcas.push_back(std::move(hca));
}

void TopoImport::open(System& system) {
  const IbnlFile* file = library_.find(system.type);
  if (!file) return fail(system.line, library_.unknown(system.type));
  auto expanded = expand(*file, system.options);
  if (!expanded) return fail(system.line, fmt::format("system '{}': {}", system.name, expanded.error().text));
  system.expanded = *std::move(expanded);
  const auto& nodes = system.expanded.nodes;
  bool alone = std::count_if(nodes.begin(), nodes.end(), [](const auto& n) { return n.kind == EndKind::sw; }) == 1;
  std::optional<u32> host;
  for (const ExpandedNode& node : nodes) {
    if (node.kind == EndKind::sw)
      place_switch(system, node, alone);
    else
      place_hca(system, node, host);
    if (error_ || result_.fabric.switches.size() > max_switches || result_.fabric.hosts.size() > max_hosts)
      return fail(system.line, "the fabric is too large");
  }
}

// Ends can do at least what their links are said to run at.
void raise(Fabric& fabric, const CableEnd& end, const LinkLimits& limits) {
  auto raise_to = [&](Speed& speed, Width& width) {
    if (limits.speed && *limits.speed > speed) speed = *limits.speed;
    if (limits.width && lanes_of(*limits.width) > lanes_of(width)) width = *limits.width;
  };
  if (end.kind == EndKind::sw) return raise_to(fabric.switches[end.node].speed, fabric.switches[end.node].width);
  Port& port = fabric.hosts[end.node].hcas[end.hca].ports[end.port - 1];
  raise_to(port.speed, port.width);
}

void TopoImport::add_cable(CableEnd a, CableEnd b, const LinkLimits& limits, int line) {
  raise(result_.fabric, a, limits);
  raise(result_.fabric, b, limits);
  lines_.emplace(Where{Part::cable, static_cast<u32>(result_.fabric.cables.size()), 0, 0}, line);
  result_.fabric.cables.push_back(ordered({a, b, limits.speed, limits.width}));
}

std::optional<CableEnd> TopoImport::end_of(const System& system, NodePort at) const {
  if (at.node >= system.places.size()) return std::nullopt;
  CableEnd end = system.places[at.node];
  end.port = at.port;
  return end;
}

void TopoImport::wire_inside(const System& system) {
  for (const ExpandedLink& link : system.expanded.links) {
    auto a = end_of(system, link.a);
    auto b = end_of(system, link.b);
    if (a && b) add_cable(*a, *b, link.limits, system.line);
  }
}

std::optional<CableEnd> TopoImport::find_plug(const PanelPort& port, LinkLimits& limits, int line) {
  const System& system = systems_[port.system];
  auto found = system.expanded.plugs.find(port.name);
  if (found == system.expanded.plugs.end()) {
    std::vector<std::string_view> names;
    for (const auto& [name, plug] : system.expanded.plugs) names.push_back(name);
    fail(line, fmt::format("{} '{}' has no port '{}'{}", system.type, system.name, port.name,
                           names.empty() ? "" : hint(port.name, names)));
    return std::nullopt;
  }
  if (!limits.speed) limits.speed = found->second.limits.speed;
  if (!limits.width) limits.width = found->second.limits.width;
  return end_of(system, found->second.at);
}

void TopoImport::wire(const PanelCable& cable) {
  LinkLimits limits = cable.limits;
  auto a = find_plug(cable.a, limits, cable.line);
  auto b = a ? find_plug(cable.b, limits, cable.line) : std::nullopt;
  if (a && b) add_cable(*a, *b, limits, cable.line);
}

// A cable may be listed under both of its systems.
void drop_repeated(std::vector<PanelCable>& cables) {
  std::map<std::pair<std::pair<u32, std::string>, std::pair<u32, std::string>>, int> seen;
  std::erase_if(cables, [&](const PanelCable& cable) {
    std::pair a(cable.a.system, cable.a.name);
    std::pair b(cable.b.system, cable.b.name);
    return !seen.emplace(std::pair(std::min(a, b), std::max(a, b)), cable.line).second;
  });
}

Parsed<Imported> TopoImport::finish() {
  if (result_.fabric.hosts.empty()) fail(number_, "there is no system with an HCA in it");
  if (error_) return refuse(*error_);
  auto completed = complete_located(std::move(result_.fabric));
  if (!completed) {
    Where where = completed.error().where;
    auto found =
        lines_.find(where.part == Part::port || where.part == Part::hca ? Where{Part::host, where.a, 0, 0} : where);
    fail(found == lines_.end() ? number_ : found->second, completed.error().text);
    return refuse(*error_);
  }
  result_.fabric = *std::move(completed);
  return std::move(result_);
}

Parsed<Imported> TopoImport::run(std::string_view text) {
  if (text.size() > largest_description) return refuse(fmt::format("{}: larger than 64 MiB", source_));
  while (!text.empty() && !error_) {
    ++number_;
    line(take_line(text));
  }
  for (System& system : systems_)
    if (!error_) open(system);
  for (const System& system : systems_)
    if (!error_) wire_inside(system);
  drop_repeated(cables_);
  for (const PanelCable& cable : cables_)
    if (!error_) wire(cable);
  return finish();
}

}  // namespace

std::vector<std::string> default_ibnl_folders() {
  std::vector<std::string> folders;
  if (const char* path = std::getenv("IBDM_IBNL_PATH"))
    for (std::string_view rest = path; !rest.empty();) {
      size_t end = std::min(rest.find(':'), rest.size());
      if (end > 0) folders.emplace_back(rest.substr(0, end));
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
  std::error_code ignored;
  std::vector<std::string> found;
  auto add_below = [&](const std::filesystem::path& folder) {
    for (const auto& entry : std::filesystem::directory_iterator(folder, ignored))
      if (entry.path().filename().string().starts_with("ibdm")) found.push_back((entry.path() / "ibnl").string());
  };
  for (const char* root : {"/usr/lib", "/usr/lib64", "/usr/share", "/usr/local/lib", "/usr/local/share"})
    add_below(root);
  for (const auto& entry : std::filesystem::directory_iterator("/usr/lib", ignored))
    if (entry.path().filename().string().find("-linux-gnu") != std::string::npos) add_below(entry.path());
  std::sort(found.begin(), found.end());
  folders.insert(folders.end(), found.begin(), found.end());
  return folders;
}

Parsed<Imported> import_topo(std::string_view text, std::string_view source, const std::vector<std::string>& library) {
  return import_topo(text, source, IbnlLibrary(library));
}

Parsed<Imported> import_topo(std::string_view text, std::string_view source, const IbnlLibrary& library) {
  return TopoImport(source, library).run(text);
}

}  // namespace softib::fabric::topo
