// Address vectors of the verbs interface, as AHs, modify_qp and query_qp carry them.
#pragma once

#include <cstring>

#include "abi/uverbs.h"
#include "ipc/protocol.h"

namespace softib::kernel::methods {

// The kernel has two structures of the same members, and keeps the GRH's in a part of their own in one of them.
template <typename Path, typename Grh>
ipc::AddressVector to_address(const Path& from, const Grh& grh) {
  ipc::AddressVector to{};
  to.port_num = from.port_num;
  to.sl = from.sl;
  to.src_path_bits = from.src_path_bits;
  to.static_rate = from.static_rate;
  to.dlid = from.dlid;
  to.is_global = from.is_global != 0;
  if (!to.is_global) return to;
  to.sgid_index = grh.sgid_index;
  to.hop_limit = grh.hop_limit;
  to.traffic_class = grh.traffic_class;
  to.flow_label = grh.flow_label;
  std::memcpy(to.dgid.raw, grh.dgid, sizeof to.dgid.raw);
  return to;
}

inline ipc::AddressVector to_address(const ib_uverbs_qp_dest& from) { return to_address(from, from); }
inline ipc::AddressVector to_address(const ib_uverbs_ah_attr& from) { return to_address(from, from.grh); }

inline ib_uverbs_qp_dest from_address(const ipc::AddressVector& from) {
  ib_uverbs_qp_dest to{};
  to.dlid = from.dlid;
  to.sl = from.sl;
  to.src_path_bits = from.src_path_bits;
  to.static_rate = from.static_rate;
  to.is_global = from.is_global;
  to.port_num = from.port_num;
  if (!to.is_global) return to;
  to.sgid_index = from.sgid_index;
  to.hop_limit = from.hop_limit;
  to.traffic_class = from.traffic_class;
  to.flow_label = from.flow_label;
  std::memcpy(to.dgid, from.dgid.raw, sizeof to.dgid);
  return to;
}

}  // namespace softib::kernel::methods
