#include "fabric/topo/draw.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <set>

#include "fabric/topo/shape.h"

namespace softib::fabric::topo {

namespace {

using Out = std::back_insert_iterator<std::string>;

// What all cables of a bundle have in common in a drawing.
struct Bundle {
  u32 cables = 0;
  std::string rate;  // "4x HDR"; empty once they differ
};

class Drawing {
 public:
  Drawing(const Fabric& fabric, DrawHosts hosts) : fabric_(fabric), tiers_(tiers_of(fabric)) {
    group_hosts(hosts);
    collect();
  }

  std::string text();

 private:
  void group_hosts(DrawHosts hosts);
  void collect();
  void emit_nodes(Out out);
  void emit_host_boxes(Out out);
  void emit_edges(Out out);
  [[nodiscard]] std::string box(const CableEnd& end) const;
  [[nodiscard]] u32 height(const CableEnd& end) const { return end.kind == EndKind::sw ? tiers_[end.node] : 0; }

  const Fabric& fabric_;
  std::vector<u32> tiers_;
  std::vector<u32> first_of_group_;  // host -> the host that stands for it
  std::map<u32, u32> group_sizes_;
  // Upper box, lower box; whether they are on one height.
  std::map<std::tuple<std::string, std::string, bool>, Bundle> bundles_;
  std::map<std::string, u32> rates_;  // how many cables run at each
};

// Hosts that hang on the same switches look the same.
void Drawing::group_hosts(DrawHosts hosts) {
  std::vector<std::multiset<std::string>> neighbours(fabric_.hosts.size());
  if (hosts == DrawHosts::count)
    for (const Cable& cable : fabric_.cables)
      for (auto [here, there] : {std::pair(&cable.a, &cable.b), {&cable.b, &cable.a}})
        if (here->kind == EndKind::hca)
          neighbours[here->node].insert(there->kind == EndKind::sw ? fabric_.switches[there->node].name
                                                                   : fabric_.hosts[there->node].name);
  std::map<std::pair<HostKind, std::multiset<std::string>>, u32> groups;
  for (u32 h = 0; h < fabric_.hosts.size(); ++h) {
    u32 first = h;
    if (hosts == DrawHosts::count)
      first = groups.emplace(std::pair(fabric_.hosts[h].kind, neighbours[h]), h).first->second;
    first_of_group_.push_back(first);
    ++group_sizes_[first];
  }
}

std::string Drawing::box(const CableEnd& end) const {
  return end.kind == EndKind::sw ? fabric_.switches[end.node].name : fabric_.hosts[first_of_group_[end.node]].name;
}

void Drawing::collect() {
  for (const Cable& cable : fabric_.cables) {
    LinkRate rate = link_rate(fabric_, cable);
    std::string text = fmt::format("{} {}", name_of(rate.width), name_of(rate.speed));
    ++rates_[text];
    bool down = height(cable.a) >= height(cable.b);
    const CableEnd& upper = down ? cable.a : cable.b;
    const CableEnd& lower = down ? cable.b : cable.a;
    bool level = height(upper) == height(lower);
    auto [entry, fresh] = bundles_.try_emplace({box(upper), box(lower), level}, Bundle{0, text});
    ++entry->second.cables;
    if (entry->second.rate != text) entry->second.rate.clear();
  }
}

void Drawing::emit_host_boxes(Out out) {
  fmt::format_to(out, "  {{ rank=same;\n");
  for (const auto& [first, size] : group_sizes_) {
    const Host& host = fabric_.hosts[first];
    bool server = host.kind == HostKind::server;
    std::string label = size == 1 ? host.name : fmt::format("{} hosts\\n{} ...", size, host.name);
    const size_t nodes = size * host.hcas.size();
    if (!server) label = nodes == 1 ? "aggregation" : fmt::format("{} aggregation nodes", nodes);
    fmt::format_to(out, "    \"{}\" [label=\"{}\", shape={}, fillcolor=\"{}\"];\n", host.name, label,
                   server ? "box" : "ellipse", server ? "#e8f0fe" : "#f1f3f4");
  }
  fmt::format_to(out, "  }}\n");
}

// From the highest tier down; switches that reach no host stand apart.
void Drawing::emit_nodes(Out out) {
  u32 highest = tiers_.empty() ? 0 : *std::max_element(tiers_.begin(), tiers_.end());
  for (u32 tier = highest + 1; tier-- > 0;) {
    std::vector<std::string> names;
    for (u32 s = 0; s < tiers_.size(); ++s)
      if (tiers_[s] == tier) names.push_back(fmt::format("\"{}\"", fabric_.switches[s].name));
    if (!names.empty()) fmt::format_to(out, "  {{ rank=same; {}; }}\n", fmt::join(names, "; "));
  }
  emit_host_boxes(out);
}

// Cables of the usual rate need no words; others are said and stand out.
void Drawing::emit_edges(Out out) {
  auto usual = std::max_element(rates_.begin(), rates_.end(), [](auto& x, auto& y) { return x.second < y.second; });
  for (const auto& [ends, bundle] : bundles_) {
    const auto& [upper, lower, level] = ends;
    bool odd = bundle.rate != usual->first;
    std::string label = bundle.cables > 1 ? fmt::format("{}", bundle.cables) : "";
    if (odd) label += fmt::format("{}{}", label.empty() ? "" : " ", bundle.rate.empty() ? "mixed" : bundle.rate);
    fmt::format_to(out, "  \"{}\" -- \"{}\" [label=\"{}\", penwidth={:.1f}{}{}];\n", upper, lower, label,
                   std::min(1.0 + 0.25 * (bundle.cables - 1), 4.0), odd ? ", color=\"#c5221f\"" : "",
                   level ? ", constraint=false" : "");
  }
}

std::string Drawing::text() {
  std::string text;
  Out out(text);
  fmt::format_to(out, "graph \"{}\" {{\n  rankdir=TB; ranksep=1.5; nodesep=0.3; splines=line;\n", fabric_.name);
  fmt::format_to(out,
                 "  node [shape=box, style=filled, fillcolor=\"#fff3e0\", fontname=\"sans-serif\", fontsize=10];\n");
  fmt::format_to(out, "  edge [fontname=\"sans-serif\", fontsize=8, color=\"#5f6368\"];\n");
  emit_nodes(out);
  emit_edges(out);
  fmt::format_to(out, "}}\n");
  return text;
}

}  // namespace

std::string to_dot(const Fabric& fabric, DrawHosts hosts) { return Drawing(fabric, hosts).text(); }

}  // namespace softib::fabric::topo
