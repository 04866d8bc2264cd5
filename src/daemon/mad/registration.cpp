#include "daemon/mad/registration.h"

#include <algorithm>

#include "wire/mad.h"

namespace softib::daemon {

namespace {

constexpr u8 subn_lid = 0x01, subn_directed = 0x81;
constexpr u8 class_count = 80;   // classes from here on are no one's, the directed SMPs apart
constexpr u8 version_count = 8;  // MAX_MGMT_VERSION
constexpr u32 oui_at = 37;

bool is_smi(u8 mgmt_class) { return mgmt_class == subn_lid || mgmt_class == subn_directed; }

bool same_oui(const Registration& agent, std::span<const u8> mad) {
  return std::equal(agent.oui.begin(), agent.oui.end(), mad.begin() + oui_at);
}

}  // namespace

bool is_vendor_with_oui(u8 mgmt_class) { return mgmt_class >= 0x30 && mgmt_class <= 0x4f; }

bool has_rmpp_header(u8 mgmt_class) {
  constexpr u8 subn_adm = 0x03, device_adm = 0x10, bis = 0x12;
  return mgmt_class == subn_adm || mgmt_class == device_adm || mgmt_class == bis || is_vendor_with_oui(mgmt_class);
}

Result<void> check(const Registration& wanted) {
  if (wanted.qpn > 1 || wanted.rmpp_version > 1) return fail(EINVAL);
  if (wanted.mgmt_class == 0) return {};
  if (wanted.class_version >= version_count) return fail(EINVAL);
  if (wanted.mgmt_class >= class_count && wanted.mgmt_class != subn_directed) return fail(EINVAL);
  if (is_vendor_with_oui(wanted.mgmt_class) && wanted.oui == std::array<u8, 3>{}) return fail(EINVAL);
  if (!has_rmpp_header(wanted.mgmt_class) && wanted.rmpp_version != 0) return fail(EINVAL);
  if (is_smi(wanted.mgmt_class) != (wanted.qpn == 0)) return fail(EINVAL);
  return {};
}

bool collide(const Registration& a, const Registration& b) {
  if (a.mgmt_class == 0 || a.mgmt_class != b.mgmt_class || a.class_version != b.class_version) return false;
  if (is_vendor_with_oui(a.mgmt_class) && a.oui != b.oui) return false;
  return (a.methods & b.methods).any();
}

bool wants(const Registration& agent, u32 qpn, std::span<const u8> mad) {
  namespace header = wire::header;
  const u8 mgmt_class = static_cast<u8>(get(mad, header::mgmt_class));
  if (agent.mgmt_class == 0 || agent.qpn != qpn || agent.mgmt_class != mgmt_class) return false;
  if (agent.class_version != get(mad, header::class_version)) return false;
  if (is_vendor_with_oui(mgmt_class) && !same_oui(agent, mad)) return false;
  const u64 method = get(mad, header::method);
  return method < most_methods && agent.methods[method];
}

}  // namespace softib::daemon
