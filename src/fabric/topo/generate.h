// Generators: from a few numbers to the hosts, switches and cables of a cluster as they are built. What comes back is
// as incomplete as a short fabric file: complete() gives it GUIDs and LIDs.
#pragma once

#include <variant>

#include "fabric/fabric.h"

namespace softib::fabric::topo {

// Leaves, spines and, with three tiers, cores. All HCAs of a host are on one leaf or on neighbouring ones.
struct FatTree {
  u32 hosts = 0;
  u32 hcas = 1;  // of each host
  u32 radix = 40;
  u32 tiers = 2;
  u32 down = 1;  // down : up is the ratio between a leaf's ports to hosts and those to spines
  u32 up = 1;
  Speed speed = Speed::hdr;
};

// Scalable units of hosts with 8 HCAs, HCA k of each host on the unit's leaf k.
enum class Generation : u8 { h100, b200, b300, hdr };
struct Superpod {
  Generation generation = Generation::h100;
  u32 units = 1;
};

// Groups of routers: all-to-all inside a group, and as many links between every two groups as the routers have for it.
struct Dragonfly {
  u32 groups = 0;
  u32 routers = 0;       // of each group
  u32 hosts = 0;         // of each router
  u32 global_links = 0;  // of each router
  u32 hcas = 1;          // of each host
  Speed speed = Speed::hdr;
};

using Topology = std::variant<FatTree, Superpod, Dragonfly>;

// What a generation is made of, per unit and per switch.
struct GenerationRow {
  Generation generation;
  std::string_view name;
  u32 hosts_per_unit;
  u32 most_units;
  u32 radix;
  u32 absent_hosts;  // at the last unit's end: where the fabric manager is connected
  Speed speed;
  std::string_view model;
};
inline constexpr u32 rails = 8;
[[nodiscard]] const GenerationRow& row_of(Generation generation);
[[nodiscard]] const std::vector<std::string_view>& generation_names();  // in the order of the enum

[[nodiscard]] Parsed<Fabric> generate(const FatTree& tree);
[[nodiscard]] Parsed<Fabric> generate(const Superpod& pod);
[[nodiscard]] Parsed<Fabric> generate(const Dragonfly& fly);
[[nodiscard]] Parsed<Fabric> generate(const Topology& topology);

}  // namespace softib::fabric::topo
