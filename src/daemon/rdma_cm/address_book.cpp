#include "daemon/rdma_cm/address_book.h"

#include <algorithm>

#include "fabric/addresses.h"
#include "wire/field.h"

namespace softib::daemon {

namespace {

constexpr u8 mapped_bits = 96;
constexpr u8 ipv6_prefix = 64;

bool in_network(const BookedAddress& address, const Ip& ip) {
  for (u32 bit = 0; bit < address.prefix; bit += 8) {
    const u32 width = std::min<u32>(8, address.prefix - bit);
    const wire::Field part{static_cast<u16>(bit), static_cast<u8>(width)};
    if (wire::get(address.ip, part) != wire::get(ip, part)) return false;
  }
  return true;
}

BookedAddress ipv4(u32 port, u32 address) {
  return {port, ip_of(address), static_cast<u8>(mapped_bits + fabric::network_prefix), 0};
}

BookedAddress ipv6(u32 port, u32 host, u32 rail) { return {port, fabric::port_address6(host, rail), ipv6_prefix, 0}; }

// On Ethernet the address that stands in the GID table, else that of the interface: fe80::/64 and the port's GUID.
BookedAddress link_local(u32 port, const ipc::Port& record) {
  BookedAddress address{port, {}, ipv6_prefix, 0};
  const ipc::Gid gid =
      record.link_layer == ipc::LinkLayer::ethernet ? record.gids[0] : fabric::link_local_gid(record.guid);
  std::copy(std::begin(gid.raw), std::end(gid.raw), address.ip.begin());
  return address;
}

}  // namespace

AddressBook::AddressBook(const fabric::Fabric& fabric, const ipc::Segment& segment) : segment_(segment) {
  u32 port = 0;
  const bool ethernet = fabric.link_layer == ipc::LinkLayer::ethernet;
  for (u32 host = 0; host < fabric.hosts.size(); ++host) {
    u32 rail = 0;
    for (const fabric::Hca& hca : fabric.hosts[host].hcas) {
      for (const fabric::Port& from : hca.ports) {
        ++port;
        auto& list = of_port_[port];
        if (fabric.hosts[host].kind != fabric::HostKind::server) continue;  // it has no interface of IP
        list.push_back(ipv4(port, from.address));
        list.push_back(ipv4(port, fabric::loopback_address(host, rail)));
        if (!ethernet) list.push_back(ipv6(port, host, rail));
        list.push_back(link_local(port, segment.ports[port]));
        ++rail;
      }
    }
  }
  index();
}

void AddressBook::index() {
  by_ip_.clear();
  for (const auto& [port, addresses] : of_port_)
    for (const BookedAddress& address : addresses) by_ip_.emplace(address.ip, address);
}

void AddressBook::set(u32 port, std::vector<BookedAddress> addresses) {
  for (BookedAddress& address : addresses) address.port = port;
  of_port_[port] = std::move(addresses);
  index();
}

u32 AddressBook::host_of(u32 port) const {
  return segment_.devices[segment_.ports[port].device % ipc::max_devices].host;
}

const BookedAddress* AddressBook::find(const Ip& ip) const {
  auto found = by_ip_.find(ip);
  return found == by_ip_.end() ? nullptr : &found->second;
}

const BookedAddress* AddressBook::find_on_host(u32 host, const Ip& ip) const {
  auto [at, end] = by_ip_.equal_range(ip);
  for (; at != end; ++at)
    if (host_of(at->second.port) == host) return &at->second;
  return nullptr;
}

const BookedAddress* AddressBook::source_for(u32 host, const Ip& destination) const {
  if (const BookedAddress* own = find_on_host(host, destination)) return own;
  const BookedAddress* best = nullptr;
  for (const auto& [port, addresses] : of_port_) {
    if (host_of(port) != host) continue;
    for (const BookedAddress& address : addresses)
      if (in_network(address, destination) && (!best || address.prefix > best->prefix)) best = &address;
  }
  return best;
}

const BookedAddress* AddressBook::first_of_port(u32 port, bool ipv4) const {
  auto found = of_port_.find(port);
  if (found == of_port_.end()) return nullptr;
  for (const BookedAddress& address : found->second)
    if (is_ipv4(address.ip) == ipv4) return &address;
  return nullptr;
}

}  // namespace softib::daemon
