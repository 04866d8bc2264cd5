#include "sa_group.h"

#include <arpa/inet.h>
#include <infiniband/umad.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <vector>

namespace conformance {
namespace {

constexpr int mad_size = 256;
constexpr int timeout_ms = 1000;
constexpr int retries = 3;

enum class GroupMethod : std::uint8_t { set = 0x02, remove = 0x15 };

// Where things lie in an SA MAD with an MCMemberRecord.
constexpr int at_attribute = 16;
constexpr int at_component_mask = 48;
constexpr int at_record = 56;
constexpr int at_mgid = at_record;
constexpr int at_port_gid = at_record + 16;
constexpr int at_qkey = at_record + 32;
constexpr int at_mlid = at_record + 36;
constexpr int at_pkey = at_record + 40;
constexpr int at_join_state = at_record + 48;
constexpr int at_status = 4;

// Components that a join names: MGID, PortGID, Q_Key, P_Key, TClass, SL, FlowLabel, JoinState.
constexpr std::uint64_t mgid = 1, port_gid = 2, q_key = 4, traffic_class = 0x40, p_key = 0x80, service_level = 0x1000,
                        flow_label = 0x2000, join_state = 0x10000;
constexpr std::uint64_t to_leave = mgid | port_gid | join_state;
constexpr std::uint64_t to_join = to_leave | q_key | p_key | traffic_class | service_level | flow_label;

struct Mad {
  std::array<std::uint8_t, mad_size> bytes{};
  void put16(int at, std::uint16_t value) {
    bytes[at] = static_cast<std::uint8_t>(value >> 8);
    bytes[at + 1] = static_cast<std::uint8_t>(value);
  }
  void put32(int at, std::uint32_t value) {
    put16(at, static_cast<std::uint16_t>(value >> 16));
    put16(at + 2, static_cast<std::uint16_t>(value));
  }
  [[nodiscard]] std::uint16_t get16(int at) const { return static_cast<std::uint16_t>(bytes[at] << 8 | bytes[at + 1]); }
};

Mad request(GroupMethod method, const umad_port_t& port, const ibv_gid& group, std::uint32_t qkey) {
  Mad mad;
  mad.bytes[0] = 1;     // base version
  mad.bytes[1] = 0x03;  // subnet administration
  mad.bytes[2] = 2;     // its version
  mad.bytes[3] = static_cast<std::uint8_t>(method);
  mad.put16(at_attribute, 0x38);
  const std::uint64_t mask = method == GroupMethod::set ? to_join : to_leave;
  mad.put32(at_component_mask, static_cast<std::uint32_t>(mask >> 32));
  mad.put32(at_component_mask + 4, static_cast<std::uint32_t>(mask));
  std::memcpy(&mad.bytes[at_mgid], group.raw, sizeof group.raw);
  std::memcpy(&mad.bytes[at_port_gid], &port.gid_prefix, 8);
  std::memcpy(&mad.bytes[at_port_gid + 8], &port.port_guid, 8);
  mad.put32(at_qkey, qkey);
  mad.put16(at_pkey, 0xffff);
  mad.bytes[at_join_state] = 1;  // full member
  return mad;
}

int exchange(int fd, int agent, const umad_port_t& port, Mad& mad) {
  std::vector<std::uint8_t> buffer(umad_size() + mad_size);
  void* umad = buffer.data();
  umad_set_addr(umad, static_cast<int>(port.sm_lid), 1, static_cast<int>(port.sm_sl), 0x80010000);
  std::memcpy(umad_get_mad(umad), mad.bytes.data(), mad_size);
  if (umad_send(fd, agent, umad, mad_size, timeout_ms, retries) < 0) return errno;
  int length = mad_size;
  if (umad_recv(fd, umad, &length, timeout_ms * (retries + 1)) < 0) return errno;
  if (umad_status(umad) != 0) return umad_status(umad);
  std::memcpy(mad.bytes.data(), umad_get_mad(umad), mad_size);
  return 0;
}

Membership ask(GroupMethod method, const std::string& device, int number, const ibv_gid& group, std::uint32_t qkey) {
  Membership result;
  umad_port_t port{};
  if (umad_init() < 0 || umad_get_port(device.c_str(), number, &port) < 0) return {errno ? errno : ENODEV, 0, 0};
  const int fd = umad_open_port(device.c_str(), number);
  const int agent = fd < 0 ? -1 : umad_register(fd, 0x03, 2, 0, nullptr);
  Mad mad = request(method, port, group, qkey);
  result.error = agent < 0 ? (errno ? errno : EIO) : exchange(fd, agent, port, mad);
  if (fd >= 0) umad_close_port(fd);
  umad_release_port(&port);
  if (result.error) return result;
  result.status = mad.get16(at_status);
  result.lid = mad.get16(at_mlid);
  if (result.status) result.error = EPROTO;
  return result;
}

}  // namespace

Membership join_group(const std::string& device, int port, const ibv_gid& group, std::uint32_t qkey) {
  return ask(GroupMethod::set, device, port, group, qkey);
}

Membership leave_group(const std::string& device, int port, const ibv_gid& group) {
  return ask(GroupMethod::remove, device, port, group, 0);
}

}  // namespace conformance
