// A fabric of the size that people have: 1,120 HCAs on 164 switches, walked as a subnet manager does.
#include <deque>
#include <unordered_set>

#include "lab.h"

namespace softib::net::test {

namespace {

constexpr u32 leaves = 112, spines = 52, hcas_per_leaf = 10, uplinks = 26, hcas_per_host = 8;

fabric::CableEnd sw(u32 node, u32 port) { return {fabric::EndKind::sw, node, 0, port}; }

void add_hosts(fabric::Fabric& fabric) {
  for (u32 number = 0; number < leaves * hcas_per_leaf; ++number) {
    const u32 h = number / hcas_per_host;
    const u32 i = number % hcas_per_host;
    if (i == 0) fabric.hosts.emplace_back().name = "host" + std::to_string(h);
    fabric::Hca& hca = fabric.hosts[h].hcas.emplace_back();
    hca.name = "mlx5_" + std::to_string(i);
    hca.ports.emplace_back();
    const fabric::CableEnd leaf = sw(number / hcas_per_leaf, number % hcas_per_leaf + 1);
    fabric.cables.push_back({{fabric::EndKind::hca, h, i, 1}, leaf, {}, {}});
  }
}

fabric::Fabric large() {
  fabric::Fabric fabric;
  fabric.name = "large";
  for (u32 i = 0; i < leaves + spines; ++i)
    fabric.switches.push_back({.name = "sw" + std::to_string(i), .ports = i < leaves ? 40U : 120U});
  add_hosts(fabric);
  for (u32 leaf = 0; leaf < leaves; ++leaf)
    for (u32 up = 0; up < uplinks; ++up) {
      const u32 spine = up * 2 + (leaf >> up % 6 & 1);  // each leaf to half of them, all together connected
      fabric.cables.push_back({sw(leaf, hcas_per_leaf + 1 + up), sw(leaves + spine, leaf + 1), {}, {}});
    }
  auto completed = fabric::complete(std::move(fabric));
  EXPECT_TRUE(completed) << completed.error().text;
  return *completed;
}

}  // namespace

class ScaleTest : public Lab {
 public:
  ScaleTest() : Lab(large()) {}

 protected:
  PortRef start_ = {leaves + spines, 1};
  Answer look(const Path& path, SmpAttribute attribute, u32 modifier = 0) {
    inbox_.clear();
    return ask(start_, directed(path, {Method::get, attribute, modifier, {}, 0}));
  }
};

TEST_F(ScaleTest, ASweepFindsEveryNodeAndLink) {
  std::deque<Path> open{{}};
  std::unordered_set<u64> known;
  u32 links_up = 0;
  while (!open.empty()) {
    const Path path = open.front();
    open.pop_front();
    const Answer node = look(path, SmpAttribute::node_info);
    ASSERT_TRUE(node.ok());
    if (!known.insert(node.get(wire::node_info::node_guid)).second) continue;
    const bool is_switch = node.get(wire::node_info::node_type) == 2;
    for (u32 port = 1; port <= node.get(wire::node_info::num_ports); ++port) {
      if (look(path, SmpAttribute::port_info, port).get(wire::port_info::port_state) < 2) continue;
      ++links_up;
      if (!is_switch && !path.empty()) continue;
      Path further = path;
      further.push_back(static_cast<u8>(port));
      open.push_back(std::move(further));
    }
  }
  EXPECT_EQ(known.size(), leaves + spines + leaves * hcas_per_leaf);
  EXPECT_EQ(links_up, 2 * (leaves * hcas_per_leaf + leaves * uplinks));
}

}  // namespace softib::net::test
