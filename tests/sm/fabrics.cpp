#include <random>

#include "world.h"

namespace softib::sm::test {

namespace {

using fabric::CableEnd;
using fabric::EndKind;

struct Builder {
  fabric::Fabric fabric;

  u32 add_switch(u32 ports) {
    fabric::Switch sw;
    sw.name = "sw" + std::to_string(fabric.switches.size());
    sw.ports = ports;
    fabric.switches.push_back(sw);
    next_.push_back(1);
    return static_cast<u32>(fabric.switches.size()) - 1;
  }
  u32 add_host(u32 at) {
    fabric::Host host;
    host.name = "h" + std::to_string(fabric.hosts.size());
    host.hcas.emplace_back().ports.emplace_back();
    fabric.hosts.push_back(host);
    const auto number = static_cast<u32>(fabric.hosts.size()) - 1;
    fabric.cables.push_back({{EndKind::hca, number, 0, 1}, port(at), {}, {}});
    return number;
  }
  void join(u32 a, u32 b) {
    const CableEnd from = port(a);
    fabric.cables.push_back({from, port(b), {}, {}});
  }
  CableEnd port(u32 sw) { return {EndKind::sw, sw, 0, next_[sw]++}; }
  fabric::Fabric finish() {
    fabric.name = "test";
    auto done = fabric::complete(std::move(fabric));
    EXPECT_TRUE(done) << done.error().text;
    return *done;
  }

 private:
  std::vector<u32> next_;
};

}  // namespace

fabric::Fabric tree(const TreeShape& shape) {
  Builder builder;
  const u32 spine_ports = shape.leaves * shape.parallel + shape.cores;
  std::vector<std::vector<u32>> spines(shape.pods);
  std::vector<u32> leaves;
  for (u32 pod = 0; pod < shape.pods; ++pod) {
    for (u32 i = 0; i < shape.spines; ++i) spines[pod].push_back(builder.add_switch(spine_ports));
    for (u32 i = 0; i < shape.leaves; ++i) {
      const u32 leaf = builder.add_switch(shape.hosts + shape.spines * shape.parallel);
      leaves.push_back(leaf);
      for (const u32 spine : spines[pod])
        for (u32 k = 0; k < shape.parallel; ++k) builder.join(leaf, spine);
    }
  }
  for (u32 i = 0; shape.cores != 0 && i < shape.spines; ++i)
    for (u32 k = 0; k < shape.cores; ++k) {
      const u32 core = builder.add_switch(shape.pods);
      for (u32 pod = 0; pod < shape.pods; ++pod) builder.join(spines[pod][i], core);
    }
  for (const u32 leaf : leaves)
    for (u32 i = 0; i < shape.hosts; ++i) builder.add_host(leaf);
  return builder.finish();
}

fabric::Fabric ring(u32 switches, u32 hosts) {
  Builder builder;
  for (u32 i = 0; i < switches; ++i) builder.add_switch(2 + hosts);
  for (u32 i = 0; i < switches; ++i) builder.join(i, (i + 1) % switches);
  for (u32 i = 0; i < switches; ++i)
    for (u32 k = 0; k < hosts; ++k) builder.add_host(i);
  return builder.finish();
}

fabric::Fabric one_switch(u32 hosts) {
  Builder builder;
  builder.add_switch(std::max<u32>(hosts, 2));
  for (u32 i = 0; i < hosts; ++i) builder.add_host(0);
  return builder.finish();
}

fabric::Fabric two_rails() {
  fabric::Fabric fabric;
  fabric.name = "test";
  for (u32 i = 0; i < 2; ++i) {
    fabric.switches.emplace_back().name = "sw" + std::to_string(i);
    fabric.switches.back().ports = 8;
  }
  for (u32 i = 0; i < 3; ++i) {
    fabric.hosts.emplace_back().name = "h" + std::to_string(i);
    auto& ports = fabric.hosts.back().hcas.emplace_back().ports;
    for (u8 number = 1; number <= 2; ++number) {
      ports.emplace_back().number = number;
      fabric.cables.push_back({{EndKind::hca, i, 0, number}, {EndKind::sw, number - 1U, 0, i + 1}, {}, {}});
    }
  }
  fabric.cables.push_back({{EndKind::sw, 0, 0, 8}, {EndKind::sw, 1, 0, 8}, {}, {}});
  auto done = fabric::complete(std::move(fabric));
  EXPECT_TRUE(done) << done.error().text;
  return *done;
}

fabric::Fabric back_to_back() {
  fabric::Fabric fabric;
  fabric.name = "test";
  for (u32 i = 0; i < 2; ++i) {
    fabric.hosts.emplace_back().name = "h" + std::to_string(i);
    fabric.hosts.back().hcas.emplace_back().ports.emplace_back();
  }
  fabric.cables.push_back({{EndKind::hca, 0, 0, 1}, {EndKind::hca, 1, 0, 1}, {}, {}});
  auto done = fabric::complete(std::move(fabric));
  EXPECT_TRUE(done) << done.error().text;
  return *done;
}

fabric::Fabric random_mesh(u32 switches, u32 extra_cables, u32 hosts, u32 seed) {
  Builder builder;
  std::mt19937 random(seed);
  for (u32 i = 0; i < switches; ++i) builder.add_switch(128);
  for (u32 i = 1; i < switches; ++i) builder.join(i, static_cast<u32>(random() % i));
  for (u32 i = 0; i < extra_cables; ++i) {
    const auto a = static_cast<u32>(random() % switches), b = static_cast<u32>(random() % switches);
    if (a != b) builder.join(a, b);
  }
  for (u32 i = 0; i < hosts; ++i) builder.add_host(static_cast<u32>(random() % switches));
  return builder.finish();
}

}  // namespace softib::sm::test
