#include "fabric/faults/ends.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "fabric/error.h"
#include "fabric/yaml_reader.h"

namespace softib::fabric {

namespace {

template <typename List>
std::vector<std::string_view> names_of(const List& list) {
  std::vector<std::string_view> names;
  for (const auto& item : list) names.emplace_back(item.name);
  return names;
}

template <typename List>
Parsed<u32> find_named(const List& list, std::string_view what, std::string_view name) {
  for (u32 i = 0; i < list.size(); ++i)
    if (list[i].name == name) return i;
  return refuse(fmt::format("the fabric has no {} '{}'{}", what, shown(name), hint_among(name, names_of(list))));
}

Parsed<u32> port_number(std::string_view text, std::string_view owner, size_t ports) {
  const auto number = parse_number(text);
  if (number && *number >= 1 && *number <= ports) return static_cast<u32>(*number);
  return refuse(fmt::format("{} has no port '{}'; {}", owner, shown(text),
                            ports == 1 ? "its only port is 1" : fmt::format("its ports are 1 to {}", ports)));
}

Parsed<CableEnd> switch_end(const Fabric& fabric, u32 index, std::string_view rest) {
  const Switch& sw = fabric.switches[index];
  if (rest.size() < 2) return refuse(fmt::format("'{0}' is a switch; name a port of it, as in {0}:1", sw.name));
  const auto port = port_number(rest.substr(1), fmt::format("switch '{}'", sw.name), sw.ports);
  if (!port) return tl::unexpected<Error>(port.error());
  return CableEnd{EndKind::sw, index, 0, *port};
}

std::string example_of(const Host& host) { return fmt::format("{}/{}:1", host.name, host.hcas.front().name); }

Parsed<CableEnd> host_end(const Fabric& fabric, u32 index, std::string_view rest) {
  const Host& host = fabric.hosts[index];
  if (host.hcas.empty()) return refuse(fmt::format("host '{}' has no HCA", host.name));
  if (rest.empty()) {
    if (host.hcas.size() == 1 && host.hcas[0].ports.size() == 1) return CableEnd{EndKind::hca, index, 0, 1};
    return refuse(fmt::format("host '{}' has several ports; name one, as in {}", host.name, example_of(host)));
  }
  if (rest[0] == ':')
    return refuse(fmt::format("'{}' is a host; name its HCA too, as in {}", host.name, example_of(host)));
  rest.remove_prefix(1);
  const size_t cut = std::min(rest.find_first_of(":/"), rest.size());
  const auto hca = find_named(host.hcas, "HCA", rest.substr(0, cut));
  if (!hca)
    return refuse(fmt::format("host '{}' has no HCA '{}'{}", host.name, shown(rest.substr(0, cut)),
                              hint_among(rest.substr(0, cut), names_of(host.hcas))));
  CableEnd end{EndKind::hca, index, *hca, 1};
  if (cut == rest.size()) return end;
  const Hca& owner = host.hcas[*hca];
  const auto port =
      port_number(rest.substr(cut + 1), fmt::format("HCA '{}/{}'", host.name, owner.name), owner.ports.size());
  if (!port) return tl::unexpected<Error>(port.error());
  end.port = *port;
  return end;
}

}  // namespace

std::string end_name(const Fabric& fabric, const CableEnd& end) {
  if (end.kind == EndKind::sw) return fmt::format("{}:{}", fabric.switches[end.node].name, end.port);
  const Host& host = fabric.hosts[end.node];
  return fmt::format("{}/{}:{}", host.name, host.hcas[end.hca].name, end.port);
}

std::string hint_among(std::string_view word, const std::vector<std::string_view>& choices) {
  constexpr size_t most = 8;
  if (choices.empty()) return "; it has none";
  if (choices.size() <= most) return hint(word, choices);
  const std::string near = hint(word, choices);
  if (near.starts_with("; did you mean")) return near;
  const std::vector<std::string_view> some(choices.begin(), choices.begin() + most / 2);
  return fmt::format("; there are {} and {} more", fmt::join(some, ", "), choices.size() - some.size());
}

Parsed<CableEnd> parse_end(const Fabric& fabric, std::string_view text) {
  const size_t cut = std::min(text.find_first_of(":/"), text.size());
  const std::string_view node = text.substr(0, cut);
  const std::string_view rest = text.substr(cut);
  for (u32 i = 0; i < fabric.switches.size(); ++i)
    if (fabric.switches[i].name == node) return switch_end(fabric, i, rest);
  if (const auto host = find_host(fabric, node)) return host_end(fabric, *host, rest);
  auto names = names_of(fabric.switches);
  for (const Host& host : fabric.hosts) names.emplace_back(host.name);
  return refuse(fmt::format("the fabric has no switch or host '{}'{}", shown(node), hint_among(node, names)));
}

Parsed<u32> parse_switch(const Fabric& fabric, std::string_view text) {
  return find_named(fabric.switches, "switch", text);
}

Parsed<u32> parse_host(const Fabric& fabric, std::string_view text) { return find_named(fabric.hosts, "host", text); }

}  // namespace softib::fabric
