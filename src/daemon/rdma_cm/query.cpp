// What the program asks about an id: its addresses, its paths, and what its queue pair is to be set to.
#include <infiniband/verbs.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "base/byte_order.h"
#include "daemon/rdma_cm/answer.h"
#include "daemon/rdma_cm/host.h"
#include "daemon/rdma_cm/path_record.h"
#include "hca/rules/address.h"

namespace softib::daemon {

namespace {

template <typename Storage>
std::span<u8> room_of(Storage& storage) {
  return {reinterpret_cast<u8*>(&storage), sizeof storage};
}

ib_user_path_rec user_path(const cm::Path& path) {
  ib_user_path_rec record{};
  std::copy(path.dgid.begin(), path.dgid.end(), record.dgid);
  std::copy(path.sgid.begin(), path.sgid.end(), record.sgid);
  record.dlid = big_endian(path.dlid);
  record.slid = big_endian(path.slid);
  record.flow_label = big_endian(path.flow_label);
  record.reversible = 1;
  record.mtu = path.mtu;
  record.pkey = big_endian(path.pkey);
  record.hop_limit = path.hop_limit;
  record.traffic_class = path.traffic_class;
  record.numb_path = 1;
  record.sl = path.sl;
  record.mtu_selector = record.rate_selector = record.packet_life_time_selector = 2;  // exactly
  record.rate = path.rate;
  record.packet_life_time = path.packet_life;
  return record;
}

}  // namespace

// -- addresses and paths

Result<u32> RdmaCm::query_route(const Command& command, const rdma_ucm_query& request) {
  auto found = find(command, request.id);
  if (!found) return fail(found.error());
  const Id& id = **found;
  rdma_ucm_query_route_resp response{};
  if (!id.source.is_ib()) emit_address(id.source, room_of(response.src_addr));
  if (!id.destination.is_ib()) emit_address(id.destination, room_of(response.dst_addr));
  if (id.port == 0) return answer(command.out, response);
  const ipc::Device& device = segment_.devices[port(id.port).device % ipc::max_devices];
  response.node_guid = big_endian(device.node_guid);
  response.port_num = port(id.port).number;
  response.ibdev_index = device.index_on_host;
  response.num_paths = static_cast<u32>(std::min<size_t>(id.paths.size(), std::size(response.ib_route)));
  for (u32 i = 0; i < response.num_paths; ++i) response.ib_route[i] = user_path(id.paths[i]);
  if (response.num_paths == 0) {
    std::copy(id.sgid.begin(), id.sgid.end(), response.ib_route[0].sgid);
    std::copy(id.dgid.begin(), id.dgid.end(), response.ib_route[0].dgid);
    response.ib_route[0].pkey = big_endian(id.pkey);
  }
  return answer(command.out, response);
}

Result<u32> RdmaCm::query(const Command& command, const rdma_ucm_query& request) {
  auto id = find(command, request.id);
  if (!id) return fail(id.error());
  switch (request.option) {
    case RDMA_USER_CM_QUERY_ADDR:
      return query_address(command, **id);
    case RDMA_USER_CM_QUERY_PATH:
      return query_path(command, **id);
    case RDMA_USER_CM_QUERY_GID:
      return query_gid(command, **id);
    default:
      return fail(ENOSYS);
  }
}

namespace {

void describe_device(rdma_ucm_query_addr_resp& response, const Id& id, const ipc::Segment& segment) {
  if (id.port == 0) return;
  const ipc::Port& port = segment.ports[id.port];
  const ipc::Device& device = segment.devices[port.device % ipc::max_devices];
  response.node_guid = big_endian(device.node_guid);
  response.port_num = port.number;
  response.pkey = big_endian(id.pkey);
  response.ibdev_index = device.index_on_host;
}

}  // namespace

Result<u32> RdmaCm::query_address(const Command& command, const Id& id) {
  rdma_ucm_query_addr_resp response{};
  response.src_size = static_cast<u16>(emit_address(id.source, room_of(response.src_addr)));
  response.dst_size = static_cast<u16>(emit_address(id.destination, room_of(response.dst_addr)));
  describe_device(response, id, segment_);
  return answer(command.out, response);
}

Result<u32> RdmaCm::query_gid(const Command& command, const Id& id) {
  rdma_ucm_query_addr_resp response{};
  describe_device(response, id, segment_);
  const auto as_ib = [&](const SocketAddress& address, const GidBytes& gid) {
    if (address.is_ib()) return address;
    SocketAddress ib = any_address(family_ib);
    ib.gid = gid;
    ib.pkey = id.port ? id.pkey : u16{0};
    ib.service_id = service_id(id, address);
    return ib;
  };
  response.src_size = static_cast<u16>(emit_address(as_ib(id.source, id.sgid), room_of(response.src_addr)));
  response.dst_size = static_cast<u16>(emit_address(as_ib(id.destination, id.dgid), room_of(response.dst_addr)));
  return answer(command.out, response);
}

Result<u32> RdmaCm::query_path(const Command& command, const Id& id) {
  const rdma_ucm_query_path_resp head{static_cast<u32>(id.paths.size()), 0};
  u32 size = answer(command.out, head);
  for (const cm::Path& path : id.paths) {
    if (command.out.size() - size < sizeof(ib_path_rec_data)) break;
    ib_path_rec_data data{};
    data.flags = IB_PATH_GMP | IB_PATH_PRIMARY | IB_PATH_BIDIRECTIONAL;
    const PathRecordBytes record = write_path(path);
    std::memcpy(data.path_rec, record.data(), record.size());
    size += answer(command.out.subspan(size), data);
  }
  return size;
}

// -- queue pairs

Result<u32> RdmaCm::init_qp_attributes(const Command& command, const rdma_ucm_init_qp_attr& request) {
  if (request.qp_state > IBV_QPS_ERR) return fail(EINVAL);
  auto found = find_with_device(command, request.id);
  if (!found) return fail(found.error());
  Id& id = **found;
  auto attributes = !id.connection || id.is_datagram() ? datagram_attributes(id, request.qp_state)
                                                       : connected_attributes(id, request.qp_state);
  if (!attributes) return fail(attributes.error());
  return answer(command.out, *attributes);
}

void RdmaCm::fill_address(ib_uverbs_ah_attr& to, const cm::Path& path, u32 index) const {
  const ipc::Port& record = port(index);
  to = {};
  to.dlid = path.dlid;
  to.sl = path.sl;
  to.src_path_bits = static_cast<u8>((path.slid - record.lid) & ((1U << (record.lmc & 7)) - 1));
  to.static_rate = path.rate;
  to.port_num = record.number;
  to.is_global = path.is_global();
  if (!to.is_global) return;
  std::copy(path.dgid.begin(), path.dgid.end(), to.grh.dgid);
  to.grh.flow_label = path.flow_label;
  to.grh.hop_limit = path.hop_limit;
  to.grh.traffic_class = path.traffic_class;
  to.grh.sgid_index = gid_index(index, path.sgid);
}

namespace {

// Where the partition stands in the port's table.
Result<u16> pkey_index(const ipc::Port& port, u16 pkey) {
  for (u16 i = 0; i < std::min<u32>(port.pkey_count, ipc::max_pkeys_per_port); ++i)
    if (((port.pkeys[i] ^ pkey) & 0x7fff) == 0 && (port.pkeys[i] & 0x7fff) != 0) return i;
  return fail(ENOENT);
}

void attributes_for_init(ib_uverbs_qp_attr& to, const cm::QueuePairView& from, const ipc::Port& port, u16 index) {
  to.qp_attr_mask = IBV_QP_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX | IBV_QP_PORT;
  to.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
  if (from.responder_resources) to.qp_access_flags |= IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
  to.pkey_index = index;
  to.port_num = port.number;
}

void attributes_for_receiving(ib_uverbs_qp_attr& to, const cm::QueuePairView& from) {
  to.qp_attr_mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
  to.path_mtu = from.mtu;
  to.dest_qp_num = from.remote_qpn;
  to.rq_psn = from.receive_psn;
  if (from.transport != cm::Transport::rc) return;
  to.qp_attr_mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
  to.max_dest_rd_atomic = from.responder_resources;
  to.min_rnr_timer = 0;
}

void attributes_for_sending(ib_uverbs_qp_attr& to, const cm::QueuePairView& from) {
  to.qp_attr_mask = IBV_QP_STATE | IBV_QP_SQ_PSN;
  to.sq_psn = from.send_psn;
  if (from.transport != cm::Transport::rc) return;
  to.qp_attr_mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
  to.timeout = from.timeout;
  to.retry_cnt = from.retry_count;
  to.rnr_retry = from.rnr_retry_count;
  to.max_rd_atomic = from.initiator_depth;
}

// When the kernel knows enough of a connection for what is asked.
bool knows_enough(cm::State state, u32 qp_state) {
  using enum cm::State;
  switch (state) {
    case req_received:
    case rep_received:
    case rep_sent:
    case mra_rep_received:
    case established:
      return true;
    case req_sent:
    case mra_req_received:
      return qp_state == IBV_QPS_INIT;
    default:
      return false;
  }
}

}  // namespace

Result<ib_uverbs_qp_attr> RdmaCm::connected_attributes(const Id& id, u32 state) {
  const auto view = manager(id).queue_pair(id.connection);
  if (!view || !knows_enough(view->state, state)) return fail(EINVAL);
  ib_uverbs_qp_attr to{};
  to.qp_state = state;
  const ipc::Port& record = port(id.port);
  auto index = pkey_index(record, view->path.pkey);
  if (!index) return fail(index.error());
  switch (state) {
    case IBV_QPS_INIT:
      attributes_for_init(to, *view, record, *index);
      break;
    case IBV_QPS_RTR:
      attributes_for_receiving(to, *view);
      fill_address(to.ah_attr, view->path, id.port);
      break;
    case IBV_QPS_RTS:
      attributes_for_sending(to, *view);
      if (id.ack_timeout && to.qp_attr_mask & IBV_QP_TIMEOUT) to.timeout = *id.ack_timeout;
      break;
    default:
      return fail(EINVAL);
  }
  return to;
}

// Of ids without a connection, and of datagram ones: what a queue pair needs to be in INIT, whatever is asked.
Result<ib_uverbs_qp_attr> RdmaCm::datagram_attributes(Id& id, u32 state) {
  ib_uverbs_qp_attr to{};
  to.qp_state = state;
  const ipc::Port& record = port(id.port);
  auto index = pkey_index(record, on_ethernet(id.port) ? u16{0xffff} : id.pkey);
  if (!index) return fail(index.error());
  to.pkey_index = *index;
  to.port_num = record.number;
  to.qp_attr_mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;
  if (!id.is_datagram()) {
    to.qp_attr_mask |= IBV_QP_ACCESS_FLAGS;
    return to;
  }
  if (auto set = set_qkey(id, 0); !set) return fail(set.error());
  to.qkey = id.qkey;
  to.qp_attr_mask |= IBV_QP_QKEY;
  return to;
}

}  // namespace softib::daemon
