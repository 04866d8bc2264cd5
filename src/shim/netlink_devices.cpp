#include "shim/netlink_devices.h"

#include <dirent.h>
#include <net/if.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "shim/tree.h"

namespace softib::shim {

namespace {

std::string text_of(const std::string& path) { return read_attribute(path).value_or(""); }

// sysfs numbers: "0x2", "2", "4: ACTIVE".
u64 number_of(const std::string& path) { return std::strtoull(text_of(path).c_str(), nullptr, 0); }

// "5254:00ff:fe00:0001", or the first half of a GID: four groups of hexadecimal digits.
std::optional<u64> four_groups(const std::string& text) {
  unsigned groups[4];
  if (std::sscanf(text.c_str(), "%x:%x:%x:%x", &groups[0], &groups[1], &groups[2], &groups[3]) != 4)
    return std::nullopt;
  u64 value = 0;
  for (unsigned group : groups) value = value << 16 | (group & 0xffff);
  return value;
}

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  DIR* open = ::opendir(folder.c_str());
  if (!open) return names;
  while (dirent* entry = ::readdir(open)) {
    if (entry->d_name[0] != '.') names.emplace_back(entry->d_name);
  }
  ::closedir(open);
  return names;
}

NetlinkPort read_port(const std::string& folder, u32 number) {
  NetlinkPort port;
  port.number = number;
  port.infiniband = text_of(folder + "/link_layer") != "Ethernet";
  port.capabilities = number_of(folder + "/cap_mask");
  port.subnet_prefix = four_groups(text_of(folder + "/gids/0"));
  port.lid = static_cast<u32>(number_of(folder + "/lid"));
  port.sm_lid = static_cast<u32>(number_of(folder + "/sm_lid"));
  port.lmc = static_cast<u8>(number_of(folder + "/lid_mask_count"));
  port.state = static_cast<u8>(number_of(folder + "/state"));
  port.phys_state = static_cast<u8>(number_of(folder + "/phys_state"));
  port.net_device = text_of(folder + "/gid_attrs/ndevs/0");
  if (!port.net_device.empty()) port.net_device_index = ::if_nametoindex(port.net_device.c_str());
  return port;
}

std::vector<NetlinkPort> read_ports(const std::string& folder) {
  std::vector<NetlinkPort> ports;
  for (const std::string& name : names_in(folder))
    ports.push_back(read_port(folder + "/" + name, static_cast<u32>(std::strtoul(name.c_str(), nullptr, 10))));
  std::ranges::sort(ports, {}, &NetlinkPort::number);
  return ports;
}

std::optional<NetlinkDevice> read_device(const std::string& sys, const std::string& uverbs_name) {
  constexpr size_t prefix = sizeof "uverbs" - 1;
  std::string uverbs = sys + "/class/infiniband_verbs/" + uverbs_name;
  NetlinkDevice device;
  device.uverbs_name = uverbs_name;
  device.index = static_cast<u32>(std::strtoul(uverbs_name.c_str() + prefix, nullptr, 10));
  device.uverbs_abi = number_of(uverbs + "/abi_version");
  if (std::sscanf(text_of(uverbs + "/dev").c_str(), "%u:%u", &device.major, &device.minor) != 2) return std::nullopt;
  device.name = text_of(uverbs + "/ibdev");
  if (device.name.empty()) return std::nullopt;
  std::string folder = sys + "/class/infiniband/" + device.name;
  device.firmware = text_of(folder + "/fw_ver");
  device.node_guid = four_groups(text_of(folder + "/node_guid")).value_or(0);
  device.system_guid = four_groups(text_of(folder + "/sys_image_guid")).value_or(0);
  device.node_type = static_cast<u8>(number_of(folder + "/node_type"));
  device.ports = read_ports(folder + "/ports");
  return device;
}

}  // namespace

std::vector<NetlinkDevice> read_devices(const std::string& sys) {
  std::vector<NetlinkDevice> devices;
  for (const std::string& name : names_in(sys + "/class/infiniband_verbs")) {
    if (!name.starts_with("uverbs")) continue;
    if (auto device = read_device(sys, name)) devices.push_back(std::move(*device));
  }
  std::ranges::sort(devices, {}, &NetlinkDevice::index);
  return devices;
}

}  // namespace softib::shim
