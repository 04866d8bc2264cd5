#include "hosts/netlink.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <net/if.h>
#include <netlink/netlink.h>
#include <netlink/route/addr.h>
#include <netlink/route/link.h>
#include <netlink/route/link/bridge.h>
#include <netlink/route/link/veth.h>
#include <netlink/route/nexthop.h>
#include <netlink/route/route.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "base/error_text.h"
#include "base/release.h"
#include "fabric/error.h"

namespace softib::hosts {

namespace {

using fabric::refuse;

using Link = std::unique_ptr<rtnl_link, Release<rtnl_link_put>>;
using rtnl::Address;
using Route = std::unique_ptr<rtnl_route, Release<rtnl_route_put>>;
using Cache = std::unique_ptr<nl_cache, Release<nl_cache_free>>;

// libnl gives 0, or the negative of one of its own numbers.
Parsed<void> done(int result, std::string_view what) {
  if (result >= 0) return {};
  return refuse(fmt::format("cannot {}: {}", what, nl_geterror(result)));
}

Link get_link(nl_sock* socket, const std::string& name) {
  rtnl_link* found = nullptr;
  if (rtnl_link_get_kernel(socket, 0, name.c_str(), &found) < 0) return nullptr;
  return Link(found);
}

std::optional<Ipv4Network> network_of(nl_addr* address) {
  if (!address || nl_addr_get_family(address) != AF_INET || nl_addr_get_len(address) != sizeof(u32))
    return std::nullopt;
  u32 bytes = 0;
  std::memcpy(&bytes, nl_addr_get_binary_addr(address), sizeof bytes);
  return Ipv4Network{ntohl(bytes), nl_addr_get_prefixlen(address)};
}

// Calls `visit(object)` for each of a cache until it gives something.
template <typename Object, typename Visit>
std::optional<Netlink::Use> first_of(nl_cache* cache, Visit visit) {
  for (nl_object* object = nl_cache_get_first(cache); object; object = nl_cache_get_next(object))
    if (auto use = visit(reinterpret_cast<Object*>(object))) return use;
  return std::nullopt;
}

}  // namespace

bool overlap(const Ipv4Network& a, const Ipv4Network& b) {
  const u32 prefix = std::min(a.prefix, b.prefix);
  const u32 mask = prefix == 0 ? 0 : ~0U << (32 - prefix);
  return (a.address & mask) == (b.address & mask);
}

std::vector<Ipv4Network> networks_of(u32 first, u32 last) {
  std::vector<Ipv4Network> networks;
  for (u64 at = first; at <= last;) {
    u32 bits = 0;  // as many as the start's zeros and the rest allow
    while (bits < 32 && (at & ((u64{2} << bits) - 1)) == 0 && at + (u64{2} << bits) - 1 <= last) ++bits;
    networks.push_back({static_cast<u32>(at), 32 - bits});
    at += u64{1} << bits;
  }
  return networks;
}

Parsed<Netlink> Netlink::open() {
  auto socket = rtnl::connect();
  if (!socket) return refuse(fmt::format("cannot open a netlink socket: {}", error_text(socket.error())));
  return Netlink(std::move(*socket));
}

int Netlink::index_of(const std::string& name) {
  const Link link = get_link(socket_.get(), name);
  return link ? rtnl_link_get_ifindex(link.get()) : 0;
}

std::string Netlink::name_of(int index) {
  rtnl_link* found = nullptr;
  if (rtnl_link_get_kernel(socket_.get(), index, nullptr, &found) < 0) return fmt::format("interface {}", index);
  const Link link(found);
  return rtnl_link_get_name(link.get());
}

bool Netlink::has(const std::string& name) { return index_of(name) != 0; }

Parsed<void> Netlink::add_bridge(const std::string& name) {
  const Link bridge(rtnl_link_bridge_alloc());
  rtnl_link_set_name(bridge.get(), name.c_str());
  rtnl_link_set_flags(bridge.get(), IFF_UP);
  return done(rtnl_link_add(socket_.get(), bridge.get(), NLM_F_CREATE | NLM_F_EXCL), "make a network bridge");
}

Parsed<void> Netlink::add_pair(const Pair& pair) {
  const Link near(rtnl_link_veth_alloc());
  const Link far(rtnl_link_veth_get_peer(near.get()));
  rtnl_link_set_name(near.get(), pair.name.c_str());
  rtnl_link_set_master(near.get(), index_of(pair.bridge));
  rtnl_link_set_flags(near.get(), IFF_UP);
  rtnl_link_set_name(far.get(), pair.far.c_str());
  if (pair.pid) rtnl_link_set_ns_pid(far.get(), pair.pid);
  if (pair.far_namespace >= 0) rtnl_link_set_ns_fd(far.get(), pair.far_namespace);
  if (pair.far_mac) {
    const Address mac(nl_addr_build(AF_LLC, pair.far_mac->data(), pair.far_mac->size()));
    rtnl_link_set_addr(far.get(), mac.get());
  }
  return done(rtnl_link_add(socket_.get(), near.get(), NLM_F_CREATE | NLM_F_EXCL),
              fmt::format("make a pair of Ethernet interfaces (veth) for {}", pair.far));
}

Parsed<void> Netlink::remove(const std::string& name) {
  const Link link = get_link(socket_.get(), name);
  if (!link) return {};
  return done(rtnl_link_delete(socket_.get(), link.get()), "remove interface " + name);
}

Parsed<void> Netlink::set_up(const std::string& name) {
  const Link link = get_link(socket_.get(), name);
  if (!link) return refuse("there is no interface " + name);
  const Link change(rtnl_link_alloc());
  rtnl_link_set_flags(change.get(), IFF_UP);
  return done(rtnl_link_change(socket_.get(), link.get(), change.get(), 0), "set interface " + name + " up");
}

Parsed<void> Netlink::give(const std::string& name, rtnl::InterfaceAddress address) {
  address.interface = static_cast<u32>(index_of(name));
  auto added = rtnl::add(socket_.get(), address);
  if (added) return {};
  return refuse(fmt::format("cannot give interface {} its address: {}", name, error_text(added.error())));
}

Parsed<void> Netlink::add_address(const std::string& name, const Ipv4Network& address) {
  rtnl::InterfaceAddress wanted{0, AF_INET, static_cast<u8>(address.prefix), {}};
  const u32 bytes = htonl(address.address);
  std::memcpy(wanted.bytes.data(), &bytes, sizeof bytes);
  return give(name, wanted);
}

Parsed<void> Netlink::add_address(const std::string& name, const Ipv6& address, u32 prefix) {
  return give(name, {0, AF_INET6, static_cast<u8>(prefix), address});
}

Parsed<void> Netlink::add_route(const std::string& name, const Ipv4Network& network) {
  const u32 bytes = htonl(network.address);
  const Address there(nl_addr_build(AF_INET, &bytes, sizeof bytes));
  nl_addr_set_prefixlen(there.get(), static_cast<int>(network.prefix));
  const Route route(rtnl_route_alloc());
  rtnl_route_set_family(route.get(), AF_INET);
  rtnl_route_set_scope(route.get(), RT_SCOPE_LINK);
  if (auto set = done(rtnl_route_set_dst(route.get(), there.get()), "name a route"); !set) return set;
  rtnl_nexthop* hop = rtnl_route_nh_alloc();
  rtnl_route_nh_set_ifindex(hop, index_of(name));
  rtnl_route_add_nexthop(route.get(), hop);
  return done(rtnl_route_add(socket_.get(), route.get(), NLM_F_CREATE),
              fmt::format("add the route to {}/{} over {}", fabric::ipv4_text(network.address), network.prefix, name));
}

std::optional<Netlink::Use> Netlink::address_in(const Ipv4Network& network) {
  nl_cache* all = nullptr;
  if (rtnl_addr_alloc_cache(socket_.get(), &all) < 0) return std::nullopt;
  const Cache cache(all);
  return first_of<rtnl_addr>(all, [&](rtnl_addr* address) -> std::optional<Use> {
    auto used = network_of(rtnl_addr_get_local(address));
    if (!used || !overlap(*used, network)) return std::nullopt;
    return Use{name_of(rtnl_addr_get_ifindex(address)), *used};
  });
}

std::optional<Netlink::Use> Netlink::route_in(const Ipv4Network& network) {
  nl_cache* all = nullptr;
  if (rtnl_route_alloc_cache(socket_.get(), AF_INET, 0, &all) < 0) return std::nullopt;
  const Cache cache(all);
  return first_of<rtnl_route>(all, [&](rtnl_route* route) -> std::optional<Use> {
    auto used = network_of(rtnl_route_get_dst(route));
    if (!used || used->prefix == 0 || !overlap(*used, network)) return std::nullopt;
    rtnl_nexthop* hop = rtnl_route_get_nnexthops(route) > 0 ? rtnl_route_nexthop_n(route, 0) : nullptr;
    return Use{hop ? name_of(rtnl_route_nh_get_ifindex(hop)) : "a route", *used};
  });
}

std::optional<Netlink::Use> Netlink::user_of(const Ipv4Network& network) {
  auto use = address_in(network);
  return use ? use : route_in(network);
}

}  // namespace softib::hosts
