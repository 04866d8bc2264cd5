// Address vectors of the verbs interface, as AHs, modify_qp and query_qp carry them.
#pragma once

#include <cstring>

#include "abi/uverbs.h"
#include "ipc/protocol.h"

namespace softib::kernel::methods {

inline ipc::AddressVector to_address(const ib_uverbs_qp_dest& from) {
  ipc::AddressVector to{};
  to.port_num = from.port_num;
  to.sl = from.sl;
  to.src_path_bits = from.src_path_bits;
  to.static_rate = from.static_rate;
  to.dlid = from.dlid;
  to.is_global = from.is_global != 0;
  if (!to.is_global) return to;
  to.sgid_index = from.sgid_index;
  to.hop_limit = from.hop_limit;
  to.traffic_class = from.traffic_class;
  to.flow_label = from.flow_label;
  std::memcpy(to.dgid.raw, from.dgid, sizeof to.dgid.raw);
  return to;
}

inline ipc::AddressVector to_address(const ib_uverbs_ah_attr& from) {
  ib_uverbs_qp_dest same{};
  std::memcpy(same.dgid, from.grh.dgid, sizeof same.dgid);
  same.flow_label = from.grh.flow_label;
  same.sgid_index = from.grh.sgid_index;
  same.hop_limit = from.grh.hop_limit;
  same.traffic_class = from.grh.traffic_class;
  same.dlid = from.dlid;
  same.sl = from.sl;
  same.src_path_bits = from.src_path_bits;
  same.static_rate = from.static_rate;
  same.is_global = from.is_global;
  same.port_num = from.port_num;
  return to_address(same);
}

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
