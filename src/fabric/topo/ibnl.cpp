#include "fabric/topo/ibnl.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <set>

#include "fabric/complete.h"
#include "fabric/runtime.h"
#include "fabric/topo/clos.h"
#include "fabric/topo/lines.h"
#include "fabric/topo/net_records.h"
#include "fabric/yaml_reader.h"

namespace softib::fabric::topo {

namespace {

constexpr size_t largest_ibnl_file = 4U << 20;
constexpr u32 deepest = 8;  // boards on boards
constexpr size_t most_boards = 4096;
constexpr size_t most_nodes = 4096;  // of one system
constexpr std::string_view removed = "R";

std::optional<Speed> speed_of(std::string_view text) {
  struct Row {
    std::string_view name;
    Speed speed;
  };
  constexpr std::array<Row, 9> rows{{{"2.5G", Speed::sdr},
                                     {"5G", Speed::ddr},
                                     {"10G", Speed::qdr},
                                     {"14G", Speed::fdr},
                                     {"FDR10", Speed::fdr10},
                                     {"25G", Speed::edr},
                                     {"50G", Speed::hdr},
                                     {"100G", Speed::ndr},
                                     {"200G", Speed::xdr}}};
  for (const Row& row : rows)
    if (row.name == text) return row.speed;
  return std::nullopt;
}

class IbnlParser {
 public:
  explicit IbnlParser(std::string_view source) { file_.source = source; }

  Parsed<IbnlFile> run(std::string_view text) {
    if (text.size() > largest_ibnl_file) return refuse(fmt::format("{}: larger than 4 MiB", file_.source));
    while (!text.empty() && !error_) {
      ++number_;
      line(take_line(text));
    }
    if (!error_ && file_.top.names.empty()) fail("there is no TOPSYSTEM in it");
    if (error_) return refuse(*error_);
    return std::move(file_);
  }

 private:
  void line(std::string_view text);
  void system(const std::vector<std::string_view>& words, bool top);
  void node(const std::vector<std::string_view>& words);
  void subsystem(const std::vector<std::string_view>& words);
  void link(const Arrow& arrow);
  void fail(std::string_view text) {
    if (!error_) error_ = one_line(fmt::format("{}:{}: {}", file_.source, number_, text));
  }

  IbnlFile file_;
  IbnlSystem* system_ = nullptr;
  int number_ = 0;
  std::optional<std::string> error_;
};

// SYSTEM LEAF,LEAF:4x
void IbnlParser::system(const std::vector<std::string_view>& words, bool top) {
  if (top && !file_.top.names.empty()) return fail("there is a TOPSYSTEM already");
  system_ = top ? &file_.top : &file_.boards.emplace_back();
  for (size_t i = 1; i < words.size(); ++i)
    for (std::string_view rest = words[i]; !rest.empty();) {
      size_t comma = std::min(rest.find(','), rest.size());
      if (comma > 0) system_->names.emplace_back(rest.substr(0, comma));
      rest.remove_prefix(std::min(comma + 1, rest.size()));
    }
  if (system_->names.empty()) fail("a system needs a name");
}

// NODE SW 24 MT47396 U1
void IbnlParser::node(const std::vector<std::string_view>& words) {
  std::optional<u64> ports = words.size() == 5 ? parse_number(words[2]) : std::nullopt;
  bool is_switch = words.size() == 5 && words[1] == "SW";
  bool is_ca = words.size() == 5 && (words[1] == "CA" || words[1] == "HCA");
  if (!ports || (!is_switch && !is_ca)) return fail("a node is written NODE SW|CA|HCA PORTS TYPE NAME");
  if (*ports < 1 || *ports > max_switch_ports)
    return fail(fmt::format("a node has 1 to {} ports, not {}", max_switch_ports, *ports));
  system_->instances.push_back({.line = number_,
                                .is_node = true,
                                .kind = is_switch ? EndKind::sw : EndKind::hca,
                                .ports = static_cast<u32>(*ports),
                                .type = std::string(words[3]),
                                .name = std::string(words[4]),
                                .links = {}});
}

void IbnlParser::subsystem(const std::vector<std::string_view>& words) {
  if (words.size() != 3) return fail("a board is written SUBSYSTEM TYPE NAME");
  system_->instances.push_back(
      {.line = number_, .is_node = false, .type = std::string(words[1]), .name = std::string(words[2]), .links = {}});
}

void IbnlParser::link(const Arrow& arrow) {
  if (!system_ || system_->instances.empty()) return fail("a connection belongs behind a NODE or SUBSYSTEM");
  if (arrow.target.size() != 1 && arrow.target.size() != 2)
    return fail("a connection leads to a plug, or to a node or board and its port");
  system_->instances.back().links.push_back({.line = number_,
                                             .port = std::string(arrow.port),
                                             .limits = arrow.limits,
                                             .to = std::string(arrow.target[0]),
                                             .to_port = std::string(arrow.target.size() == 2 ? arrow.target[1] : "")});
}

void IbnlParser::line(std::string_view text) {
  if (auto arrow = split_arrow(text)) return *arrow ? link(**arrow) : fail(arrow->error());
  std::vector<std::string_view> words = words_of(text);
  if (words.empty()) return;
  if (words[0] == "SYSTEM" || words[0] == "TOPSYSTEM") return system(words, words[0] == "TOPSYSTEM");
  if (!system_) return fail(fmt::format("'{}' stands before any SYSTEM or TOPSYSTEM", words[0].substr(0, 40)));
  if (words[0] == "NODE") return node(words);
  if (words[0] == "SUBSYSTEM") return subsystem(words);
  if (words[0].find('=') != std::string_view::npos) return;  // an attribute of an instance: nothing to wire
  fail(fmt::format("'{}' is neither a section nor a connection", words[0].substr(0, 40)));
}

// -- opening boards up

class Expander {
 public:
  Expander(const IbnlFile& file, const BoardOptions& options) : file_(file), options_(options) {
    for (const IbnlSystem& board : file.boards)
      for (const std::string& name : board.names) boards_.emplace(name, &board);
  }

  Parsed<ExpandedSystem> run() {
    Plugs plugs;
    system(file_.top, "", 0, plugs);
    if (error_) return refuse(*error_);
    for (auto& [name, plug] : plugs) result_.plugs.emplace(name, plug);
    return std::move(result_);
  }

 private:
  using Plugs = std::map<std::string, Plug, std::less<>>;
  using Instances = std::map<std::string, Plugs, std::less<>>;  // their ports, by name

  void system(const IbnlSystem& system, const std::string& path, u32 depth, Plugs& plugs);
  Plugs instance(const IbnlInstance& instance, const std::string& path, u32 depth);
  Plugs node(const IbnlInstance& instance, const std::string& path);
  Plugs board(const IbnlInstance& instance, const std::string& path, u32 depth);
  void wire(const IbnlLink& link, const Plugs& from, const Instances& all, Plugs& plugs);
  void connect(const Plug& a, const Plug& b, const LinkLimits& limits);
  void fail(int line, std::string_view text) {
    if (!error_) error_ = one_line(fmt::format("{}:{}: {}", file_.source, line, text));
  }

  const IbnlFile& file_;
  const BoardOptions& options_;
  std::map<std::string, const IbnlSystem*, std::less<>> boards_;
  size_t opened_ = 0;
  std::set<NodePort> connected_;
  ExpandedSystem result_;
  std::optional<std::string> error_;
};

Expander::Plugs Expander::node(const IbnlInstance& instance, const std::string& path) {
  auto index = static_cast<u32>(result_.nodes.size());
  if (index >= most_nodes) {
    fail(instance.line, fmt::format("a system has at most {} nodes", most_nodes));
    return {};
  }
  result_.nodes.push_back({path, instance.kind, instance.ports, instance.type});
  Plugs ports;
  for (u32 p = 1; p <= instance.ports; ++p) ports.emplace(std::to_string(p), Plug{{index, p}, {}});
  return ports;
}

Expander::Plugs Expander::board(const IbnlInstance& instance, const std::string& path, u32 depth) {
  auto option = options_.find(path);
  if (option != options_.end() && option->second == removed) return {};
  std::string type = option == options_.end() ? instance.type : fmt::format("{}:{}", instance.type, option->second);
  auto found = boards_.find(type);
  Plugs plugs;
  if (found == boards_.end())
    fail(instance.line, fmt::format("there is no board '{}' for '{}'", type, path));
  else if (++opened_ > most_boards)
    fail(instance.line, fmt::format("a system has at most {} boards", most_boards));
  else if (depth >= deepest)
    fail(instance.line, fmt::format("boards are nested more than {} deep", deepest));
  else
    system(*found->second, path, depth + 1, plugs);
  return plugs;
}

Expander::Plugs Expander::instance(const IbnlInstance& instance, const std::string& path, u32 depth) {
  std::string own = path.empty() ? instance.name : fmt::format("{}/{}", path, instance.name);
  return instance.is_node ? node(instance, own) : board(instance, own, depth);
}

LinkLimits tighter(const LinkLimits& lower, const LinkLimits& upper) {
  return {lower.speed ? lower.speed : upper.speed, lower.width ? lower.width : upper.width};
}

// A system lists its inner connections from both sides, or from one.
void Expander::connect(const Plug& a, const Plug& b, const LinkLimits& limits) {
  if (connected_.contains(a.at) || connected_.contains(b.at) || a.at == b.at) return;
  connected_.insert(a.at);
  connected_.insert(b.at);
  result_.links.push_back({a.at, b.at, tighter(a.limits, tighter(b.limits, limits))});
}

// Ports that a missing board, or another flavour of it, would have had lead nowhere.
void Expander::wire(const IbnlLink& link, const Plugs& from, const Instances& all, Plugs& plugs) {
  auto port = from.find(link.port);
  if (port == from.end()) return;
  if (link.to_port.empty()) {
    Plug plug = port->second;
    plug.limits = tighter(plug.limits, link.limits);
    plugs.emplace(link.to, plug);
    return;
  }
  auto other = all.find(link.to);
  if (other == all.end()) return fail(link.line, fmt::format("there is no node and no board '{}' here", link.to));
  if (auto end = other->second.find(link.to_port); end != other->second.end())
    connect(port->second, end->second, link.limits);
}

void Expander::system(const IbnlSystem& system, const std::string& path, u32 depth, Plugs& plugs) {
  Instances all;
  for (const IbnlInstance& each : system.instances) {
    if (error_) return;
    Plugs ports = instance(each, path, depth);
    if (!all.emplace(each.name, std::move(ports)).second)
      fail(each.line, fmt::format("there are two instances named '{}'", each.name));
  }
  for (const IbnlInstance& each : system.instances)
    for (const IbnlLink& link : each.links) {
      if (error_) return;
      if (each.is_node && !all[each.name].contains(link.port))
        fail(link.line, fmt::format("'{}' has no port '{}'", each.name, link.port));
      wire(link, all[each.name], all, plugs);
    }
}

}  // namespace

std::vector<std::string_view> words_of(std::string_view line) {
  std::vector<std::string_view> words;
  line = line.substr(0, line.find('#'));
  constexpr std::string_view blanks = " \t\r\f\v";
  while (true) {
    size_t begin = line.find_first_not_of(blanks);
    if (begin == std::string_view::npos) return words;
    size_t end = std::min(line.find_first_of(blanks, begin), line.size());
    words.push_back(line.substr(begin, end - begin));
    line.remove_prefix(end);
  }
}

std::optional<LinkLimits> parse_limits(std::string_view text) {
  LinkLimits limits;
  while (!text.empty()) {
    size_t end = std::min(text.find('-'), text.size());
    std::string_view word = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (word.empty()) continue;
    bool is_width = word.back() == 'x' || word.back() == 'X';
    if (is_width) limits.width = width_from_name(word);
    if (!is_width) limits.speed = speed_of(word);
    if (is_width ? !limits.width : !limits.speed) return std::nullopt;
  }
  return limits;
}

std::optional<tl::expected<Arrow, std::string>> split_arrow(std::string_view line) {
  line = line.substr(0, line.find('#'));
  size_t arrow = line.find("->");
  if (arrow == std::string_view::npos) return std::nullopt;
  std::vector<std::string_view> left = words_of(line.substr(0, arrow));
  if (left.empty() || left.size() > 2) return tl::unexpected<std::string>("one port is expected before '->'");
  std::optional<LinkLimits> limits = parse_limits(left.size() == 2 ? left[1] : std::string_view{});
  if (!limits)
    return tl::unexpected<std::string>(
        fmt::format("'{}' is no width and speed, as in -4x-10G->", left[1].substr(0, 40)));
  return Arrow{left[0], *limits, words_of(line.substr(arrow + 2))};
}

Parsed<IbnlFile> parse_ibnl(std::string_view text, std::string_view source) { return IbnlParser(source).run(text); }

Parsed<ExpandedSystem> expand(const IbnlFile& file, const BoardOptions& options) {
  return Expander(file, options).run();
}

IbnlLibrary::IbnlLibrary(const std::vector<std::string>& folders) {
  for (const std::string& folder : folders) {
    std::error_code error;
    std::vector<std::string> paths;
    for (const auto& entry : std::filesystem::directory_iterator(folder, error))
      if (entry.path().extension() == ".ibnl") paths.push_back(entry.path().string());
    if (error) continue;
    folders_.push_back(folder);
    std::sort(paths.begin(), paths.end());
    for (const std::string& path : paths) load(path);
  }
}

void IbnlLibrary::load(const std::string& path) {
  auto text = read_file(path);
  auto added = text ? add(*text, path) : Parsed<void>(refuse(fmt::format("{}: can't be read", path)));
  if (!added) broken_.push_back(added.error().text);
}

Parsed<void> IbnlLibrary::add(std::string_view text, std::string_view source) {
  auto file = parse_ibnl(text, source);
  if (!file) return tl::unexpected<Error>(file.error());
  files_.push_back(std::make_unique<IbnlFile>(*std::move(file)));
  for (const std::string& name : files_.back()->top.names) by_type_.emplace(name, files_.back().get());
  return {};
}

const IbnlFile* IbnlLibrary::find(std::string_view type) const {
  auto found = by_type_.find(type);
  return found == by_type_.end() ? nullptr : found->second;
}

std::string IbnlLibrary::unknown(std::string_view type) const {
  std::string text = fmt::format("system type '{}' is not known", type.substr(0, 40));
  if (folders_.empty())
    return text + ": there is no folder of IBNL definitions; install ibutils, or set IBDM_IBNL_PATH";
  std::vector<std::string_view> names;
  for (const auto& [name, file] : by_type_) names.push_back(name);
  std::string near = hint(type, names);
  if (!near.starts_with("; did you mean")) near.clear();  // the whole list would be long
  std::string broken = broken_.empty() ? "" : fmt::format(" (not readable: {})", broken_.front());
  return fmt::format("{} in {}{}{}", text, fmt::join(folders_, ", "), near, broken);
}

}  // namespace softib::fabric::topo
