#include "fabric/topo/sort.h"

#include <algorithm>
#include <numeric>
#include <tuple>

#include "fabric/topo/node_names.h"

namespace softib::fabric::topo {

namespace {

bool before(const Switch& a, const Switch& b) { return natural_less(a.name, b.name); }
bool before(const Host& a, const Host& b) { return a.kind != b.kind ? a.kind < b.kind : natural_less(a.name, b.name); }

// Brings `items` in order and gives each old index its new one.
template <typename Item>
std::vector<u32> sort_by_name(std::vector<Item>& items) {
  std::vector<u32> order(items.size());
  std::iota(order.begin(), order.end(), 0U);
  std::sort(order.begin(), order.end(), [&](u32 a, u32 b) { return before(items[a], items[b]); });
  std::vector<u32> places(items.size());
  std::vector<Item> result;
  result.reserve(items.size());
  for (u32 place = 0; place < order.size(); ++place) {
    places[order[place]] = place;
    result.push_back(std::move(items[order[place]]));
  }
  items = std::move(result);
  return places;
}

auto key_of(const CableEnd& end) { return std::tuple(end.kind, end.node, end.hca, end.port); }

}  // namespace

Cable ordered(Cable cable) {
  if (key_of(cable.b) < key_of(cable.a)) std::swap(cable.a, cable.b);
  return cable;
}

bool cable_less(const Cable& x, const Cable& y) {
  return std::pair(key_of(x.a), key_of(x.b)) < std::pair(key_of(y.a), key_of(y.b));
}

Fabric sorted(Fabric fabric) {
  std::vector<u32> hosts = sort_by_name(fabric.hosts);
  std::vector<u32> switches = sort_by_name(fabric.switches);
  for (Cable& cable : fabric.cables) {
    for (CableEnd* end : {&cable.a, &cable.b}) end->node = (end->kind == EndKind::hca ? hosts : switches)[end->node];
    cable = ordered(cable);
  }
  std::sort(fabric.cables.begin(), fabric.cables.end(), cable_less);
  return fabric;
}

}  // namespace softib::fabric::topo
