#include "daemon/populate.h"

#include <algorithm>
#include <charconv>
#include <cstring>

#include "daemon/port_record.h"

namespace softib::daemon {

namespace {

template <size_t N>
void copy_text(char (&to)[N], std::string_view from) {
  std::memset(to, 0, N);
  std::memcpy(to, from.data(), std::min(from.size(), N - 1));
}

// "20.38.1002" as ib_uverbs_query_device_resp packs it: 16 bits a part, as mlx5 does.
u64 pack_firmware(std::string_view text) {
  u64 packed = 0;
  for (int part = 0; part < 3; ++part) {
    u32 number = 0;
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    packed = packed << 16 | (number & 0xffff);
    text.remove_prefix(std::min(text.size(), static_cast<size_t>(end - text.data()) + 1));
  }
  return packed;
}

void fill_port(ipc::Port& to, const fabric::Fabric& fabric, const fabric::Port& from, u32 device) {
  to.link_layer = fabric.link_layer;
  to.number = from.number;
  to.device = device;
  to.guid = from.guid;
  to.max_mtu = static_cast<u8>(from.mtu);
  write_status(to, fabric::initial_status(fabric, from));
}

void fill_device(ipc::Device& to, const fabric::Hca& from, const fabric::Host& host) {
  copy_text(to.name, from.name);
  copy_text(to.description, fabric::node_description(host, from));
  to.node_guid = from.node_guid;
  to.system_guid = from.system_guid;
  to.port_count = static_cast<u32>(from.ports.size());
  const fabric::Model* model = fabric::find_model(from.model);
  if (!model) model = fabric::find_model(fabric::default_model);
  to.vendor_id = model->vendor_id;
  to.device_id = model->vendor_part_id;
  to.hardware_version = model->hardware_version;
  to.firmware_version = pack_firmware(model->firmware);
}

Result<void> add_device(ipc::Segment& segment, const fabric::Fabric& fabric, u32 host, u32 hca) {
  const fabric::Hca& from = fabric.hosts[host].hcas[hca];
  ipc::Header& header = segment.header;
  if (header.device_count + 1 >= ipc::max_devices || header.port_count + from.ports.size() >= ipc::max_ports)
    return fail(E2BIG);
  u32 index = ++header.device_count;
  ipc::Device& device = segment.devices[index];
  fill_device(device, from, fabric.hosts[host]);
  device.host = host;
  device.index_on_host = hca;
  device.first_port = header.port_count + 1;
  for (const fabric::Port& port : from.ports) fill_port(segment.ports[++header.port_count], fabric, port, index);
  return {};
}

// The cable's other end, where that is a host's port.
void note_direct_cables(ipc::Segment& segment, const fabric::Fabric& fabric) {
  auto index_of = [&](const fabric::CableEnd& end) -> u32 {
    if (end.kind != fabric::EndKind::hca) return 0;
    for (u32 i = 1; i <= segment.header.device_count; ++i)
      if (segment.devices[i].host == end.node && segment.devices[i].index_on_host == end.hca)
        return segment.devices[i].first_port + end.port - 1;
    return 0;
  };
  for (const fabric::Cable& cable : fabric.cables) {
    if (cable.a.kind != cable.b.kind) continue;  // the usual one, host to switch: not worth a search
    u32 a = index_of(cable.a);
    u32 b = index_of(cable.b);
    if (!a || !b) continue;
    segment.ports[a].peer = b;
    segment.ports[b].peer = a;
  }
}

}  // namespace

Result<void> populate(ipc::Segment& segment, const fabric::Fabric& fabric) {
  copy_text(segment.header.fabric, fabric.name);
  for (u32 host = 0; host < fabric.hosts.size(); ++host)
    for (u32 hca = 0; hca < fabric.hosts[host].hcas.size(); ++hca)
      if (auto added = add_device(segment, fabric, host, hca); !added) return added;
  note_direct_cables(segment, fabric);
  return {};
}

std::vector<u32> subnets_of_ports(const fabric::Fabric& fabric) {
  std::vector<u32> subnets{0};
  for (const fabric::Host& host : fabric.hosts)
    for (const fabric::Hca& hca : host.hcas)
      for (const fabric::Port& port : hca.ports) subnets.push_back(port.subnet);
  return subnets;
}

}  // namespace softib::daemon
