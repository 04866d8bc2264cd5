#include "hca/rules/address.h"

namespace softib::hca {

namespace {

constexpr u8 max_service_level = 15;

Result<void> check_grh(const ipc::AddressVector& av, const ipc::Port& from) {
  if (!av.is_global) return from.link_layer == ipc::LinkLayer::ethernet ? fail(EINVAL) : Result<void>{};
  if (av.sgid_index >= from.gid_count) return fail(EINVAL);
  return {};
}

}  // namespace

bool is_multicast(const ipc::AddressVector& av, ipc::LinkLayer layer) {
  if (layer == ipc::LinkLayer::ethernet) return av.is_global && is_multicast_gid(av.dgid);
  return is_multicast_lid(av.dlid);
}

Result<void> check_address(const ipc::AddressVector& av, const ipc::Port& from, AddressUse use) {
  if (auto grh = check_grh(av, from); !grh) return grh;
  if (from.link_layer == ipc::LinkLayer::infiniband && av.dlid == 0) return fail(EINVAL);
  if (av.sl > max_service_level) return fail(EINVAL);
  if (use == AddressUse::connected && is_multicast(av, from.link_layer)) return fail(EINVAL);
  return {};
}

}  // namespace softib::hca
