#include <fmt/format.h>

#include "fabric/topo/clos.h"
#include "fabric/topo/generate.h"

namespace softib::fabric::topo {

namespace {

// A router's ports: hosts, then the other routers of its group, then global links.
//
//     1 ... ends | ends+1 ... ends+routers-1 | ... radix
struct Router {
  u32 ends = 0;
  u32 radix = 0;
};

Router router_of(const Dragonfly& fly) {
  u32 ends = fly.hosts * fly.hcas;
  return {ends, ends + fly.routers - 1 + fly.global_links};
}

Parsed<void> check(const Dragonfly& fly) {
  if (fly.groups == 0) return refuse("a dragonfly has at least 1 group");
  if (fly.routers == 0) return refuse("a group has at least 1 router");
  if (fly.hosts == 0) return refuse("a router has at least 1 host");
  u64 routers = static_cast<u64>(fly.groups) * fly.routers;
  u64 radix = static_cast<u64>(fly.hosts) * fly.hcas + fly.routers - 1 + fly.global_links;
  u64 hosts = routers * fly.hosts;
  if (auto size = check_size(hosts, fly.hcas, routers, static_cast<u32>(std::min<u64>(radix, ~0U))); !size) return size;
  u64 global = static_cast<u64>(fly.routers) * fly.global_links;
  if (global + 1 < fly.groups)
    return refuse(fmt::format("{} groups, but a group has {} global links: at most {} groups can be joined", fly.groups,
                              global, global + 1));
  return {};
}

void add_routers(Fabric& fabric, const Dragonfly& fly, const Router& router) {
  for (u32 g = 0; g < fly.groups; ++g)
    for (u32 r = 0; r < fly.routers; ++r)
      fabric.switches.push_back(
          {.name = fmt::format("{}-{}", numbered("g", g, fly.groups), numbered("r", r, fly.routers)),
           .ports = router.radix,
           .speed = fly.speed});
}

void add_hosts(Fabric& fabric, const Dragonfly& fly) {
  for (u32 sw = 0; sw < fly.groups * fly.routers; ++sw)
    for (u32 place = 0; place < fly.hosts; ++place) {
      Host host{fmt::format("{}-{}", fabric.switches[sw].name, numbered("host", place, fly.hosts)), {}};
      auto index = static_cast<u32>(fabric.hosts.size());
      for (u32 d = 0; d < fly.hcas; ++d) {
        host.hcas.push_back({.name = fmt::format("mlx5_{}", d), .ports = {Port{.speed = fly.speed}}});
        fabric.cables.push_back({{EndKind::hca, index, d, 1}, {EndKind::sw, sw, 0, place * fly.hcas + d + 1}, {}, {}});
      }
      fabric.hosts.push_back(std::move(host));
    }
}

// Router r reaches router q of its group by port ends + q, or ends + q + 1 when q is behind r itself.
void add_local_links(Fabric& fabric, const Dragonfly& fly, const Router& router) {
  for (u32 g = 0; g < fly.groups; ++g)
    for (u32 r = 0; r < fly.routers; ++r)
      for (u32 q = r + 1; q < fly.routers; ++q)
        fabric.cables.push_back({{EndKind::sw, g * fly.routers + r, 0, router.ends + q},
                                 {EndKind::sw, g * fly.routers + q, 0, router.ends + r + 1},
                                 {},
                                 {}});
}

// A group's global links are numbered router by router. In each round of groups - 1 of them, link d - 1 goes to the
// group d further on, where it is link groups - d - 1. Links that would not fill a round are left over.
void add_global_links(Fabric& fabric, const Dragonfly& fly, const Router& router) {
  if (fly.groups < 2) return;
  u32 rounds = fly.routers * fly.global_links / (fly.groups - 1);
  auto end = [&](u32 group, u32 link) {
    return CableEnd{EndKind::sw, group * fly.routers + link / fly.global_links, 0,
                    router.ends + fly.routers + link % fly.global_links};
  };
  for (u32 round = 0; round < rounds; ++round)
    for (u32 g = 0; g < fly.groups; ++g)
      for (u32 d = 1; g + d < fly.groups; ++d)
        fabric.cables.push_back({end(g, round * (fly.groups - 1) + d - 1),
                                 end(g + d, round * (fly.groups - 1) + fly.groups - d - 1),
                                 {},
                                 {}});
}

}  // namespace

Parsed<Fabric> generate(const Dragonfly& fly) {
  if (auto checked = check(fly); !checked) return tl::unexpected<Error>(checked.error());
  Router router = router_of(fly);
  Fabric fabric;
  add_routers(fabric, fly, router);
  add_hosts(fabric, fly);
  add_local_links(fabric, fly, router);
  add_global_links(fabric, fly, router);
  return fabric;
}

}  // namespace softib::fabric::topo
