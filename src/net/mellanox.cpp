#include "net/mellanox.h"

#include <algorithm>
#include <charconv>

#include "base/durations.h"
#include "net/class_port_info.h"
#include "wire/mellanox.h"

namespace softib::net {

namespace {

using wire::MadStatus;

struct Version {
  std::array<u32, 3> parts{};  // major, minor, sub-minor
};

Version version_from(std::string_view text) {
  Version version;
  const char* at = text.data();
  const char* const end = at + text.size();
  for (u32& part : version.parts) {
    at = std::from_chars(at, end, part).ptr;
    if (at != end) ++at;
  }
  return version;
}

void general_info(const World& world, const Node& node, std::span<u8> data) {
  namespace info = wire::mellanox::general_info;
  const fabric::Firmware firmware = fabric::firmware_of({node.vendor, node.device});
  const auto [parts] = version_from(firmware.version);
  wire::set(data, info::hw_revision, node.revision);
  wire::set(data, info::device_id, node.device);
  wire::set(data, info::uptime, (world.now - std::max(node.on_since, world.began)) / ns::second);
  wire::set(data, info::major, parts[0]);
  wire::set(data, info::minor, parts[1]);
  wire::set(data, info::sub_minor, parts[2]);
  wire::set(data, info::long_major, parts[0]);
  wire::set(data, info::long_minor, parts[1]);
  wire::set(data, info::long_sub_minor, parts[2]);
  std::copy_n(firmware.psid.begin(), std::min<size_t>(firmware.psid.size(), info::psid_size - 1),
              data.begin() + info::psid_at);
}

}  // namespace

bool has_mellanox_agent(const Node& node) { return fabric::is_mellanox({node.vendor, node.device}); }

MadStatus mellanox(const World& world, const Node& node, Packet& packet) {
  const std::span<u8> data = std::span(packet.mad).subspan(wire::mellanox::data_at, wire::mellanox::data_size);
  if (wire::method_of(packet.mad) != wire::Method::get) return MadStatus::bad_attribute;
  switch (static_cast<wire::mellanox::Attribute>(wire::attribute_of(packet.mad))) {
    case wire::mellanox::Attribute::class_port_info:
      std::fill(data.begin(), data.end(), u8{0});
      begin_class_port_info(data);
      return MadStatus::ok;
    case wire::mellanox::Attribute::general_info:
      std::fill(data.begin(), data.end(), u8{0});
      general_info(world, node, data);
      return MadStatus::ok;
  }
  return MadStatus::bad_attribute;
}

}  // namespace softib::net
