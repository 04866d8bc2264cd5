#include "hca/rules/qp_attributes.h"

#include <bit>

#include "hca/limits.h"
#include "hca/rules/address.h"

namespace softib::hca {

namespace {

constexpr u8 max_exponent = 31;  // timers are 5-bit codes
constexpr u8 max_retry = 7;      // counters are 3 bits wide

const ipc::Port* port_by_number(const QpPlace& place, u8 number) {
  return number >= 1 && number <= place.ports.size() ? &place.ports[number - 1U] : nullptr;
}

bool numbers_fit(const ipc::QpAttributes& a, QpAttr mask) {
  if (has(mask, QpAttr::timeout) && a.timeout > max_exponent) return false;
  if (has(mask, QpAttr::min_rnr_timer) && a.min_rnr_timer > max_exponent) return false;
  if (has(mask, QpAttr::retry_count) && a.retry_count > max_retry) return false;
  if (has(mask, QpAttr::rnr_retry) && a.rnr_retry > max_retry) return false;
  if (has(mask, QpAttr::max_rd_atomic) && a.max_rd_atomic > limits::max_rd_atomic) return false;
  if (has(mask, QpAttr::max_dest_rd_atomic) && a.max_dest_rd_atomic > limits::max_rd_atomic) return false;
  if (has(mask, QpAttr::dest_qpn) && a.dest_qp_num > qpn_mask) return false;
  return !has(mask, QpAttr::path_mig_state) || a.path_mig_state <= static_cast<u32>(PathMigration::armed);
}

Result<void> check_primary(const ipc::QpAttributes& a, QpAttr mask, const ipc::Port& port) {
  if (has(mask, QpAttr::pkey_index) && a.pkey_index >= port.pkey_count) return fail(EINVAL);
  if (has(mask, QpAttr::path_mtu) && (a.path_mtu < 1 || a.path_mtu > port.active_mtu)) return fail(EINVAL);
  if (!has(mask, QpAttr::av)) return {};
  if (a.av.port_num != port.number) return fail(EINVAL);
  return check_address(a.av, port, AddressUse::connected);
}

Result<void> check_alternate(const ipc::QpAttributes& a, QpAttr mask, const QpPlace& place) {
  if (!has(mask, QpAttr::alt_path)) return {};
  const ipc::Port* port = port_by_number(place, a.alt_port_num);
  if (!port || a.alt_av.port_num != a.alt_port_num) return fail(EINVAL);
  if (a.alt_timeout > max_exponent || a.alt_pkey_index >= port->pkey_count) return fail(EINVAL);
  return check_address(a.alt_av, *port, AddressUse::connected);
}

}  // namespace

u32 mtu_enum(u32 bytes) { return bytes ? static_cast<u32>(std::bit_width(bytes)) - 8 : 0; }

u8 port_after(const ipc::QpAttributes& a, QpAttr mask, const QpPlace& place) {
  if (has(mask, QpAttr::port)) return a.port_num;
  // A new path in SQD may lead through another port without naming it twice.
  if (has(mask, QpAttr::av) && !has(mask, QpAttr::state)) return a.av.port_num;
  return place.port_num;
}

Result<void> check_values(const ipc::QpAttributes& a, QpAttr mask, const QpPlace& place) {
  if (!numbers_fit(a, mask)) return fail(EINVAL);
  if (auto alternate = check_alternate(a, mask, place); !alternate) return alternate;
  QpAttr about_port = QpAttr::port | QpAttr::pkey_index | QpAttr::path_mtu | QpAttr::av;
  if (!any(mask & about_port)) return {};
  const ipc::Port* port = port_by_number(place, port_after(a, mask, place));
  if (!port) return fail(EINVAL);
  return check_primary(a, mask, *port);
}

}  // namespace softib::hca
