#include "fabric/manager_keys.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include "base/error_text.h"
#include "fabric/partitions.h"
#include "fabric/runtime.h"

namespace softib::fabric {

namespace {

namespace fs = std::filesystem;

constexpr u32 longest_interval = 86'400;  // seconds

fs::path folder_of(std::string_view source) {
  std::error_code ignored;
  return fs::absolute(fs::path(source), ignored).parent_path().lexically_normal();
}

// -- sm

SubnetManager kind_of(YamlReader& yaml, const YAML::Node& node) {
  constexpr std::array kinds{SubnetManager::builtin, SubnetManager::opensm, SubnetManager::none};
  return kinds[yaml.choice(node, "subnet manager", {"builtin", "opensm", "none"}, 0)];
}

// A list, or a single one.
template <typename Visit>
void each(YamlReader& yaml, const YAML::Node& node, Visit visit) {
  if (!node.IsDefined()) return;
  if (!node.IsSequence()) return visit(node);
  for (const YAML::Node& entry : node) {
    visit(entry);
    if (!yaml.ok()) return;
  }
}

std::string routing_of(YamlReader& yaml, const YAML::Node& node, SubnetManager sm) {
  static const std::vector<std::string_view> own{"minhop", "updn", "ftree"};
  static const std::vector<std::string_view> of_opensm{
      "minhop", "updn", "dnup", "file", "ftree", "lash", "dor", "torus-2QoS", "nue", "dfsssp", "sssp", "no_fallback"};
  const auto& known = sm == SubnetManager::opensm ? of_opensm : own;
  if (node.IsDefined() && node.IsSequence() && sm != SubnetManager::opensm)
    yaml.fail(node, "the built-in subnet manager takes one routing engine");
  std::vector<std::string_view> chosen;
  each(yaml, node,
       [&](const YAML::Node& entry) { chosen.push_back(known[yaml.choice(entry, "routing engine", known, 0)]); });
  return fmt::format("{}", fmt::join(chosen, ","));
}

// What softibd itself has to say, in all the ways that getopt takes it.
bool is_reserved(std::string_view arg) {
  constexpr std::array<std::string_view, 4> words{"--guid", "--daemon", "--log_file", "--pidfile"};
  constexpr std::string_view letters = "gBfJ";
  const std::string_view word = arg.substr(0, arg.find('='));
  if (word.size() > 2 && word.starts_with("--"))
    return std::any_of(words.begin(), words.end(), [word](std::string_view full) { return full.starts_with(word); });
  return arg.size() >= 2 && arg[0] == '-' && letters.find(arg[1]) != letters.npos;
}

void read_args(YamlReader& yaml, const YAML::Node& node, ManagerOptions& options) {
  each(yaml, node, [&](const YAML::Node& entry) {
    options.args.push_back(yaml.text(entry));
    if (is_reserved(options.args.back()))
      yaml.fail(entry, fmt::format("softibd sets '{}' of opensm itself", options.args.back().substr(0, 40)));
  });
}

void read_ports(YamlReader& yaml, const YAML::Node& node, const ReadEnd& end, ManagerOptions& options) {
  each(yaml, node, [&](const YAML::Node& entry) {
    const CableEnd port = end(entry);
    if (!yaml.ok()) return;
    if (port.kind != EndKind::hca) yaml.fail(entry, "opensm runs on a host's port, as in host0/mlx5_0/1");
    if (std::find(options.ports.begin(), options.ports.end(), port) != options.ports.end())
      yaml.fail(entry, "a port has room for one opensm");
    options.ports.push_back(port);
  });
}

void read_opensm(YamlReader& yaml, const YAML::Node& node, const Source& source, const ReadEnd& end,
                 ManagerOptions& options) {
  read_ports(yaml, node["ports"], end, options);
  read_args(yaml, node["args"], options);
  options.folder = yaml.text(node["folder"]);
  if (options.folder.empty() && !options.args.empty()) options.folder = folder_of(source.name);
  if (!options.folder.empty() && options.folder[0] != '/')
    options.folder = (folder_of(source.name) / options.folder).lexically_normal();
}

// -- partitions

// YAML's literal form begins on the line after its '|'; in others the text begins where it stands.
u32 first_line_of(const YAML::Node& node, const Source& source) {
  const auto at = static_cast<size_t>(std::max(node.Mark().pos, 0));
  const bool is_block = at < source.text.size() && source.text[at] == '|';
  return static_cast<u32>(line_of(node)) + (is_block ? 1 : 0);
}

// Not a device without an end.
Result<std::string> read_small_file(const std::string& path) {
  constexpr std::uintmax_t largest = 16U << 20;
  std::error_code error;
  const std::uintmax_t size = fs::file_size(path, error);
  if (error) return fail(error.value());
  if (size > largest) return fail(EFBIG);
  return read_file(path);
}

bool is_partition_text(std::string_view value) { return value.find_first_of(";\n") != value.npos; }

// The first error, as "NAME:LINE: cause".
std::string fault_in(std::string_view text, std::string_view name, u32 first_line) {
  const Partitions parsed = parse_partitions(text, name, first_line);
  return parsed.errors.empty() ? std::string() : parsed.errors.front();
}

}  // namespace

void read_manager(YamlReader& yaml, const YAML::Node& node, const Source& source, const ReadEnd& end, Fabric& fabric) {
  if (!node.IsDefined()) return;
  if (!node.IsMap()) {
    fabric.sm = kind_of(yaml, node);
    return;
  }
  if (!yaml.check_map(node, "the subnet manager",
                      {"kind", "routing", "priority", "sweep_interval", "ports", "args", "folder"}))
    return;
  fabric.sm = kind_of(yaml, node["kind"]);
  if (fabric.sm == SubnetManager::none && node.size() > 1)
    return yaml.fail(node, "'kind: none' starts no subnet manager that could have other keys");
  ManagerOptions& options = fabric.manager;
  options.routing = routing_of(yaml, node["routing"], fabric.sm);
  options.priority = static_cast<u8>(yaml.number(node["priority"], "priority", 0, 15, options.priority));
  options.sweep_interval = static_cast<u32>(
      yaml.number(node["sweep_interval"], "sweep_interval", 0, longest_interval, options.sweep_interval));
  if (fabric.sm == SubnetManager::opensm) return read_opensm(yaml, node, source, end, options);
  for (const char* key : {"ports", "args", "folder"})
    if (node[key].IsDefined()) yaml.fail(node[key], fmt::format("'{}' is for 'kind: opensm'", key));
}

void read_partitions(YamlReader& yaml, const YAML::Node& node, const Source& source, Fabric& fabric) {
  if (!yaml.ok() || !node.IsDefined()) return;
  std::string value = yaml.text(node);
  if (!yaml.ok()) return;
  if (value.empty()) return yaml.fail(node, "partitions: a text in the syntax of partitions.conf, or a file's name");
  std::string fault;
  if (is_partition_text(value)) {
    fabric.partitions = std::move(value);
    fault = fault_in(fabric.partitions, source.name, first_line_of(node, source));
  } else {
    const std::string path = (folder_of(source.name) / value).lexically_normal();
    auto text = read_small_file(path);
    if (!text) return yaml.fail(node, fmt::format("partitions: cannot read {}: {}", path, error_text(text.error())));
    fabric.partitions = std::move(*text);
    fault = fault_in(fabric.partitions, path, 1);
  }
  if (!fault.empty()) return yaml.fail_as_is(std::move(fault));
  for (const Host& host : fabric.hosts)
    for (const Hca& hca : host.hcas)
      for (const Port& port : hca.ports)
        if (!port.pkeys.empty() && port.pkeys != std::vector<u16>{0xffff})
          return yaml.fail(node, fmt::format("partitions say who has which P_Key, and so do the pkeys of {}/{}; one "
                                             "of them has to go",
                                             host.name, hca.name));
}

}  // namespace softib::fabric
