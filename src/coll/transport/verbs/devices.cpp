#include "coll/transport/verbs/devices.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "coll/log.h"

namespace softib::coll::verbs {

namespace {

constexpr std::size_t max_ports = 8;  // more rails than that don't pay, and each costs a queue pair for each peer

u32 lanes_of(u8 width) {
  switch (width) {
    case 1:
      return 1;
    case 2:
      return 4;
    case 4:
      return 8;
    case 8:
      return 12;
    case 16:
      return 2;
    default:
      return 1;
  }
}

// Data, not signals: what 8b/10b or 64b/66b leave of it.
double gigabits_of(const ibv_port_attr& port) {
  const auto lane = [&]() -> double {
    switch (port.active_speed) {
      case 1:
        return 2;
      case 2:
        return 4;
      case 4:
        return 8;
      case 8:
        return 10;
      case 16:
        return 14;
      case 32:
        return 25;
      case 64:
        return 50;
      case 128:
        return 100;
      default:
        return 0;
    }
  }();
  return lane * lanes_of(port.active_width);
}

std::vector<GidEntry> gids_of(ibv_context* context, u8 port, i32 length) {
  std::vector<GidEntry> table;
  for (i32 index = 0; index < length; index++) {
    ibv_gid_entry raw{};
    if (ibv_query_gid_ex(context, port, static_cast<u32>(index), &raw, 0) != 0) continue;
    GidEntry entry;
    entry.index = static_cast<u32>(index);
    std::memcpy(entry.gid.data(), raw.gid.raw, entry.gid.size());
    entry.kind = raw.gid_type == IBV_GID_TYPE_ROCE_V2   ? GidKind::roce_v2
                 : raw.gid_type == IBV_GID_TYPE_ROCE_V1 ? GidKind::roce_v1
                                                        : GidKind::infiniband;
    table.push_back(entry);
  }
  return table;
}

// Fills `port` in, or tells what is against it.
std::string look_at(ibv_context* context, const Environment& environment, Port& port) {
  ibv_port_attr attributes{};
  if (ibv_query_port(context, port.number, &attributes) != 0) return fmt::format("query: {}", std::strerror(errno));
  if (attributes.state != IBV_PORT_ACTIVE) return fmt::format("the port is {}", ibv_port_state_str(attributes.state));
  if (attributes.link_layer != IBV_LINK_LAYER_INFINIBAND && attributes.link_layer != IBV_LINK_LAYER_ETHERNET)
    return "neither InfiniBand nor Ethernet";
  port.layer = attributes.link_layer == IBV_LINK_LAYER_ETHERNET ? LinkLayer::ethernet : LinkLayer::infiniband;
  port.lid = attributes.lid;
  port.mtu = 128U << attributes.active_mtu;
  port.gigabits = gigabits_of(attributes);
  if (environment.ib_pkey >= attributes.pkey_tbl_len)
    return fmt::format("its table has {} P_Keys, SOFTIB_IB_PKEY={} is outside", attributes.pkey_tbl_len,
                       environment.ib_pkey);
  u16 pkey = 0;
  if (ibv_query_pkey(context, port.number, environment.ib_pkey, &pkey) != 0)
    return fmt::format("query of P_Key {}: {}", environment.ib_pkey, std::strerror(errno));
  constexpr u16 number = 0x7fff;  // the upper bit tells full members
  if ((ntohs(pkey) & number) == 0) return fmt::format("no P_Key at index {} (SOFTIB_IB_PKEY)", environment.ib_pkey);
  const auto gids = gids_of(context, port.number, attributes.gid_tbl_len);
  const auto gid = choose_gid(gids, port.layer, environment.ib_gid_index);
  if (!gid && environment.ib_gid_index)
    return fmt::format("no GID at index {} (SOFTIB_IB_GID_INDEX)", *environment.ib_gid_index);
  if (!gid) return "its table has no GID";
  port.gid = *gid;
  return "";
}

bool pages_on_demand(ibv_context* context) {
  ibv_device_attr_ex attributes{};
  if (ibv_query_device_ex(context, nullptr, &attributes) != 0) return false;
  const ibv_odp_caps& caps = attributes.odp_caps;
  constexpr u32 needed = IBV_ODP_SUPPORT_WRITE | IBV_ODP_SUPPORT_READ;
  return (caps.general_caps & IBV_ODP_SUPPORT) != 0 && (caps.per_transport_caps.rc_odp_caps & needed) == needed;
}

void open_device(ibv_device* listed, const Environment& environment, Devices& devices) {
  const std::string name = ibv_get_device_name(listed);
  Device device;
  device.name = name;
  device.context.reset(ibv_open_device(listed));
  if (!device.context || ibv_query_device(device.context.get(), &device.limits) != 0) {
    devices.refused.push_back(fmt::format("{}: open: {}", name, std::strerror(errno)));
    return;
  }
  device.on_demand = pages_on_demand(device.context.get());
  bool used = false;
  for (u8 number = 1; number <= device.limits.phys_port_cnt; number++) {
    Port port;
    port.name = fmt::format("{}:{}", name, number);
    port.device = static_cast<u32>(devices.all.size());
    port.number = number;
    if (!environment.ib_hca.matches(name, number)) {
      devices.refused.push_back(port.name + ": not in SOFTIB_IB_HCA");
      continue;
    }
    const std::string against = look_at(device.context.get(), environment, port);
    if (!against.empty()) {
      devices.refused.push_back(fmt::format("{}: {}", port.name, against));
      continue;
    }
    devices.ports.push_back(std::move(port));
    used = true;
  }
  if (!used) return;
  device.domain.reset(ibv_alloc_pd(device.context.get()));
  if (!device.domain) {
    devices.refused.push_back(fmt::format("{}: protection domain: {}", name, std::strerror(errno)));
    std::erase_if(devices.ports, [&](const Port& port) { return port.device == devices.all.size(); });
    return;
  }
  devices.all.push_back(std::move(device));
}

void order_ports(const Environment& environment, Devices& devices) {
  const auto place = [&](const Port& port) {
    return environment.ib_hca.place(devices.all[port.device].name, port.number);
  };
  std::stable_sort(devices.ports.begin(), devices.ports.end(),
                   [&](const Port& a, const Port& b) { return place(a) < place(b); });
  while (devices.ports.size() > max_ports) {
    devices.refused.push_back(fmt::format("{}: {} ports are used already", devices.ports.back().name, max_ports));
    devices.ports.pop_back();
  }
}

}  // namespace

Devices Devices::open(const Environment& environment) {
  Devices devices;
  if (environment.ib_disable) {
    devices.refused.emplace_back("SOFTIB_IB_DISABLE is set");
    return devices;
  }
  // A child's writes shall not tear pages away from under the HCA. Kernels since 5.12 see to that themselves, and this
  // then does nothing.
  static const int forks = ibv_fork_init();
  if (forks != 0) log::info(log::no_rank, Subsystem::net, "NET/IB : ibv_fork_init: {}", std::strerror(forks));
  const DeviceList there;
  for (int i = 0; i < there.count; i++) open_device(there.devices[i], environment, devices);
  order_ports(environment, devices);
  return devices;
}

std::string Devices::names() const {
  std::string text;
  for (std::size_t i = 0; i < ports.size(); i++)
    text += fmt::format("{}[{}]{}/{}", i == 0 ? "" : " ", i, ports[i].name, name_of(ports[i].layer));
  return text;
}

std::string Devices::why_none() const {
  if (refused.empty()) return "no verbs device is there (ibv_devices lists them)";
  return fmt::format("no verbs device can be used: {}", fmt::join(refused, "; "));
}

bool make_queue(Device& device, u32 entries) {
  device.channel.reset(ibv_create_comp_channel(device.context.get()));
  if (!device.channel) return false;
  device.completions.reset(
      ibv_create_cq(device.context.get(), static_cast<int>(entries), nullptr, device.channel.get(), 0));
  if (!device.completions) return false;
  for (const int descriptor : {device.channel->fd, device.context->async_fd}) {
    const int flags = fcntl(descriptor, F_GETFL);
    if (flags < 0 || fcntl(descriptor, F_SETFL, flags | O_NONBLOCK) < 0) return false;
  }
  return true;
}

}  // namespace softib::coll::verbs
