// Queue pairs.
#include <linux/capability.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "hca/rules/bits.h"
#include "kernel/methods/address.h"
#include "kernel/methods/handlers.h"

namespace softib::kernel::methods {

using hca::QpAttr;
using ipc::QpState;

namespace {

bool may_use_raw_packets() {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3]{};
  if (::syscall(SYS_capget, &header, data) != 0) return false;
  return data[0].effective & (1U << CAP_NET_RAW);
}

// The types that the device has; the others fail as on a device without them.
Result<ipc::QpType> check_type(u64 type) {
  switch (type) {
    case IB_UVERBS_QPT_RC:
      return ipc::QpType::rc;
    case IB_UVERBS_QPT_UC:
      return ipc::QpType::uc;
    case IB_UVERBS_QPT_UD:
      return ipc::QpType::ud;
    case IB_UVERBS_QPT_RAW_PACKET:
      return fail(may_use_raw_packets() ? EOPNOTSUPP : EPERM);
    case IB_UVERBS_QPT_XRC_INI:
    case IB_UVERBS_QPT_DRIVER:
      return fail(EOPNOTSUPP);
    default:
      return fail(EINVAL);  // XRC_TGT among them: there is no XRC domain that it could name
  }
}

ib_uverbs_qp_cap to_caps(const ipc::QpCaps& from) {
  return {from.max_send_wr, from.max_recv_wr, from.max_send_sge, from.max_recv_sge, from.max_inline};
}

rxe_create_qp_resp ring_info(const ipc::CreateQp::Reply& made) {
  rxe_create_qp_resp info{};
  info.sq_mi = {made.sq_ring, made.sq_ring_size, 0};
  info.rq_mi = {made.rq_ring, made.rq_ring_size, 0};
  return info;
}

void undo_qp(Interpreter& file, const ipc::CreateQp::Reply& made) {
  file.rings().drop(made.sq_ring);
  file.rings().drop(made.rq_ring);
  file.undo<ipc::DestroyQp>({made.qpn});
}

// Takes no create flags yet: blocking of multicast loopback is the only one that an InfiniBand device could offer.
Result<ipc::CreateQp::Reply> make_qp(Interpreter& file, const ipc::CreateQp::Request& request,
                                     const DriverData& driver) {
  if (!file.find_cq(request.send_cq) || !file.find_cq(request.recv_cq)) return fail(EINVAL);
  if (request.srq && !file.find_srq(request.srq)) return fail(EINVAL);
  if (auto room = driver.expect_room<rxe_create_qp_resp>(); !room) return fail(room.error());
  if (auto none = driver.expect_no_input(); !none) return fail(none.error());
  if (request.create_flags) return fail(EOPNOTSUPP);
  auto made = file.call<ipc::CreateQp>(request);
  if (!made) return made;
  file.rings().put(made->sq_ring, made->sq_ring_size);
  if (made->rq_ring_size) file.rings().put(made->rq_ring, made->rq_ring_size);
  if (auto told = driver.respond(ring_info(*made)); !told) {
    undo_qp(file, *made);
    return fail(told.error());
  }
  return made;
}

constexpr u64 known_ioctl_flags = IB_UVERBS_QP_CREATE_BLOCK_MULTICAST_LOOPBACK | IB_UVERBS_QP_CREATE_SCATTER_FCS |
                                  IB_UVERBS_QP_CREATE_CVLAN_STRIPPING | IB_UVERBS_QP_CREATE_PCI_WRITE_END_PADDING |
                                  IB_UVERBS_QP_CREATE_SQ_SIG_ALL;

Result<void> take_flags(const Attributes& attributes, ipc::CreateQp::Request& into) {
  auto flags = attributes.flags(UVERBS_ATTR_CREATE_QP_FLAGS, known_ioctl_flags);
  if (!flags) return fail(flags.error());
  into.sq_sig_all = (*flags & IB_UVERBS_QP_CREATE_SQ_SIG_ALL) != 0;
  into.create_flags = static_cast<u32>(*flags & ~u64{IB_UVERBS_QP_CREATE_SQ_SIG_ALL});
  if (into.create_flags && into.type != ipc::QpType::ud) return fail(EINVAL);
  if (attributes.has(UVERBS_ATTR_CREATE_QP_SOURCE_QPN)) return fail(EOPNOTSUPP);
  return {};
}

Result<ipc::CreateQp::Request> read_request(const Attributes& attributes) {
  ipc::CreateQp::Request request{};
  auto caps = attributes.read<ib_uverbs_qp_cap>(UVERBS_ATTR_CREATE_QP_CAP);
  auto user_handle = attributes.read<u64>(UVERBS_ATTR_CREATE_QP_USER_HANDLE);
  if (!caps || !user_handle) return fail(EFAULT);
  auto number = attributes.constant(UVERBS_ATTR_CREATE_QP_TYPE, 0xffff'ffffU);
  if (!number) return fail(number.error());
  auto type = check_type(*number);
  if (!type) return fail(type.error());
  for (u16 needed :
       {UVERBS_ATTR_CREATE_QP_PD_HANDLE, UVERBS_ATTR_CREATE_QP_SEND_CQ_HANDLE, UVERBS_ATTR_CREATE_QP_RECV_CQ_HANDLE}) {
    if (!attributes.has(needed)) return fail(ENOENT);
  }
  request.type = *type;
  request.pd = attributes.handle(UVERBS_ATTR_CREATE_QP_PD_HANDLE);
  request.send_cq = attributes.handle(UVERBS_ATTR_CREATE_QP_SEND_CQ_HANDLE);
  request.recv_cq = attributes.handle(UVERBS_ATTR_CREATE_QP_RECV_CQ_HANDLE);
  request.srq = attributes.handle(UVERBS_ATTR_CREATE_QP_SRQ_HANDLE);
  request.user_handle = *user_handle;
  request.caps = {caps->max_send_wr, caps->max_recv_wr, caps->max_send_sge, caps->max_recv_sge, caps->max_inline_data};
  if (auto done = take_flags(attributes, request); !done) return fail(done.error());
  return request;
}

}  // namespace

Result<void> create_qp(Interpreter& file, Attributes& attributes) {
  auto request = read_request(attributes);
  if (!request) return fail(request.error());
  auto made = make_qp(file, *request, attributes.driver());
  if (!made) return fail(made.error());
  auto done = attributes.write_or_zero(UVERBS_ATTR_CREATE_QP_RESP_CAP, to_caps(made->caps));
  if (done) done = attributes.write(UVERBS_ATTR_CREATE_QP_RESP_QP_NUM, made->qpn);
  if (done) done = attributes.write_object(UVERBS_ATTR_CREATE_QP_HANDLE, made->qpn);
  if (!done) undo_qp(file, *made);
  return done;
}

namespace {

// Bits that the kernel knows in a write command's create_flags (enum ib_qp_create_flags): BLOCK_MULTICAST_LOOPBACK,
// CROSS_CHANNEL, MANAGED_SEND, MANAGED_RECV, SCATTER_FCS, CVLAN_STRIPPING, SOURCE_QPN, PCI_WRITE_END_PADDING.
constexpr u32 known_write_flags = 1U << 1 | 1U << 2 | 1U << 3 | 1U << 4 | 1U << 8 | 1U << 9 | 1U << 10 | 1U << 11;

// The plain and the extended structure have the same members up to is_srq.
template <typename Wire>
Result<ipc::CreateQp::Request> convert(const Wire& from) {
  auto type = check_type(from.qp_type);
  if (!type) return fail(type.error());
  ipc::CreateQp::Request to{};
  to.type = *type;
  to.pd = from.pd_handle;
  to.send_cq = from.send_cq_handle;
  to.recv_cq = from.recv_cq_handle;
  to.srq = from.is_srq ? from.srq_handle : 0;
  if (from.is_srq && to.srq == 0) return fail(EINVAL);
  to.sq_sig_all = from.sq_sig_all != 0;
  to.user_handle = from.user_handle;
  to.caps = {from.max_send_wr, from.max_recv_wr, from.max_send_sge, from.max_recv_sge, from.max_inline_data};
  return to;
}

ib_uverbs_create_qp_resp answer(const ipc::CreateQp::Reply& made) {
  ib_uverbs_create_qp_resp response{};
  response.qp_handle = made.qpn;
  response.qpn = made.qpn;
  response.max_send_wr = made.caps.max_send_wr;
  response.max_recv_wr = made.caps.max_recv_wr;
  response.max_send_sge = made.caps.max_send_sge;
  response.max_recv_sge = made.caps.max_recv_sge;
  response.max_inline_data = made.caps.max_inline;
  return response;
}

}  // namespace

Result<void> create_qp(Interpreter& file, Command& command) {
  ib_uverbs_create_qp request{};
  if (auto read = command.read(request); !read) return read;
  auto wish = convert(request);
  if (!wish) return fail(wish.error());
  auto made = make_qp(file, *wish, command.driver());
  if (!made) return fail(made.error());
  auto done = command.respond(answer(*made));
  if (!done) undo_qp(file, *made);
  return done;
}

Result<void> create_qp_extended(Interpreter& file, Command& command) {
  ib_uverbs_ex_create_qp request{};
  if (auto read = command.read(request); !read) return read;
  if (request.comp_mask || request.reserved) return fail(EINVAL);  // no indirection tables here to name
  auto wish = convert(request);
  if (!wish) return fail(wish.error());
  if (request.create_flags & ~known_write_flags) return fail(EINVAL);
  wish->create_flags = request.create_flags;
  auto made = make_qp(file, *wish, command.driver());
  if (!made) return fail(made.error());
  ib_uverbs_ex_create_qp_resp response{};
  response.base = answer(*made);
  response.response_length = command.response_length<ib_uverbs_ex_create_qp_resp>();
  auto done = command.respond(response);
  if (!done) undo_qp(file, *made);
  return done;
}

namespace {

constexpr QpAttr standard_attributes = static_cast<QpAttr>((1U << 21) - 1);

ipc::QpAttributes convert_attributes(const ib_uverbs_modify_qp& from) {
  ipc::QpAttributes to{};
  to.mask = from.attr_mask;
  to.qp_state = from.qp_state;
  to.cur_qp_state = from.cur_qp_state;
  to.path_mtu = from.path_mtu;
  to.path_mig_state = from.path_mig_state;
  to.qkey = from.qkey;
  to.rq_psn = from.rq_psn;
  to.sq_psn = from.sq_psn;
  to.dest_qp_num = from.dest_qp_num;
  to.access_flags = from.qp_access_flags;
  to.av = to_address(from.dest);
  to.alt_av = to_address(from.alt_dest);
  to.pkey_index = from.pkey_index;
  to.alt_pkey_index = from.alt_pkey_index;
  to.en_sqd_async_notify = from.en_sqd_async_notify;
  to.max_rd_atomic = from.max_rd_atomic;
  to.max_dest_rd_atomic = from.max_dest_rd_atomic;
  to.min_rnr_timer = from.min_rnr_timer;
  to.port_num = from.port_num;
  to.timeout = from.timeout;
  to.retry_count = from.retry_cnt;
  to.rnr_retry = from.rnr_retry;
  to.alt_port_num = from.alt_port_num;
  to.alt_timeout = from.alt_timeout;
  return to;
}

// An address vector names the port too. Towards RTR it must be the QP's; elsewhere (SQD) the port follows it.
Result<void> settle_port(Interpreter& file, const ipc::Qp& qp, ipc::QpAttributes& wish) {
  auto mask = static_cast<QpAttr>(wish.mask);
  if (has(mask, QpAttr::port) && !file.find_port(wish.port_num)) return fail(EINVAL);
  if (!has(mask, QpAttr::av)) return {};
  const ipc::Port* port = file.find_port(wish.av.port_num);
  if (!port) return fail(EINVAL);
  if (has(mask, QpAttr::state) && wish.qp_state == static_cast<u32>(QpState::rtr)) {
    const ipc::Port& own = file.control().segment().ports[qp.port & (ipc::max_ports - 1)];
    return &own == port ? Result<void>{} : fail(EINVAL);
  }
  if (has(mask, QpAttr::port)) return wish.port_num == wish.av.port_num ? Result<void>{} : fail(EINVAL);
  wish.mask |= static_cast<u32>(QpAttr::port);
  wish.port_num = wish.av.port_num;
  return {};
}

Result<void> check_states(Interpreter& file, const ipc::QpAttributes& wish) {
  auto mask = static_cast<QpAttr>(wish.mask);
  constexpr u32 last = static_cast<u32>(QpState::err);
  if (has(mask, QpAttr::cur_state) && wish.cur_qp_state > last) return fail(EINVAL);
  if (has(mask, QpAttr::state) && wish.qp_state > last) return fail(EINVAL);
  if (!has(mask, QpAttr::alt_path)) return {};
  bool ports_agree = wish.alt_port_num == wish.alt_av.port_num && file.find_port(wish.alt_port_num);
  return ports_agree ? Result<void>{} : fail(EINVAL);
}

Result<void> change_qp(Interpreter& file, const ib_uverbs_modify_qp& request) {
  const ipc::Qp* qp = file.find_qp(request.qp_handle);
  if (!qp) return fail(EINVAL);
  ipc::QpAttributes wish = convert_attributes(request);
  if (auto good = settle_port(file, *qp, wish); !good) return good;
  if (auto good = check_states(file, wish); !good) return good;
  QpState from = qp->state.load(std::memory_order_acquire);
  auto changed = file.call<ipc::ModifyQp>({request.qp_handle, 0, wish});
  if (!changed) return fail(changed.error());
  if (has(static_cast<QpAttr>(wish.mask), QpAttr::state))
    file.control().engine().qp_modified(request.qp_handle, from, changed->state);
  return {};
}

}  // namespace

Result<void> modify_qp(Interpreter& file, Command& command) {
  ib_uverbs_modify_qp request{};
  if (auto read = command.read(request); !read) return read;
  if (any(static_cast<QpAttr>(request.attr_mask) & ~standard_attributes)) return fail(EOPNOTSUPP);
  return change_qp(file, request);
}

// What the extended command adds is the rate limit, which the device does not have.
Result<void> modify_qp_extended(Interpreter& file, Command& command) {
  ib_uverbs_ex_modify_qp request{};
  if (auto read = command.read(request); !read) return read;
  if (any(static_cast<QpAttr>(request.base.attr_mask) & ~standard_attributes)) return fail(EOPNOTSUPP);
  if (auto done = change_qp(file, request.base); !done) return done;
  ib_uverbs_ex_modify_qp_resp response{};
  response.response_length = command.response_length<ib_uverbs_ex_modify_qp_resp>();
  return command.respond(response);
}

namespace {

ib_uverbs_query_qp_resp describe(const ipc::QueryQp::Reply& found) {
  const ipc::QpAttributes& from = found.attributes;
  ib_uverbs_query_qp_resp to{};
  to.dest = from_address(from.av);
  to.alt_dest = from_address(from.alt_av);
  to.max_send_wr = from.caps.max_send_wr;
  to.max_recv_wr = from.caps.max_recv_wr;
  to.max_send_sge = from.caps.max_send_sge;
  to.max_recv_sge = from.caps.max_recv_sge;
  to.max_inline_data = from.caps.max_inline;
  to.qkey = from.qkey;
  to.rq_psn = from.rq_psn;
  to.sq_psn = from.sq_psn;
  to.dest_qp_num = from.dest_qp_num;
  to.qp_access_flags = from.access_flags;
  to.pkey_index = from.pkey_index;
  to.alt_pkey_index = from.alt_pkey_index;
  to.qp_state = static_cast<u8>(from.qp_state);
  to.cur_qp_state = static_cast<u8>(from.cur_qp_state);
  to.path_mtu = static_cast<u8>(from.path_mtu);
  to.path_mig_state = static_cast<u8>(from.path_mig_state);
  to.sq_draining = from.sq_draining;
  to.max_rd_atomic = from.max_rd_atomic;
  to.max_dest_rd_atomic = from.max_dest_rd_atomic;
  to.min_rnr_timer = from.min_rnr_timer;
  to.port_num = from.port_num;
  to.timeout = from.timeout;
  to.retry_cnt = from.retry_count;
  to.rnr_retry = from.rnr_retry;
  to.alt_port_num = from.alt_port_num;
  to.alt_timeout = from.alt_timeout;
  to.sq_sig_all = found.sq_sig_all != 0;
  return to;
}

}  // namespace

Result<void> query_qp(Interpreter& file, Command& command) {
  ib_uverbs_query_qp request{};
  if (auto read = command.read(request); !read) return read;
  auto found = file.call<ipc::QueryQp>({request.qp_handle});
  if (!found) return fail(found.error());
  return command.respond(describe(*found));
}

namespace {

Result<ib_uverbs_destroy_qp_resp> end_qp(Interpreter& file, u32 qpn) {
  const ipc::Qp* qp = file.find_qp(qpn);
  if (!qp) return fail(ENOENT);
  file.rings().drop(qp->sq_ring);  // before the offsets can be given out again
  file.rings().drop(qp->rq_ring);
  auto ended = as_lookup(file.call<ipc::DestroyQp>({qpn}));
  if (!ended) return fail(ended.error());
  file.control().engine().qp_destroyed(qpn);
  return ib_uverbs_destroy_qp_resp{ended->async_events_reported};
}

}  // namespace

Result<void> destroy_qp(Interpreter& file, Attributes& attributes) {
  auto ended = end_qp(file, attributes.handle(UVERBS_ATTR_DESTROY_QP_HANDLE));
  if (!ended) return fail(ended.error());
  return attributes.write(UVERBS_ATTR_DESTROY_QP_RESP, *ended);
}

Result<void> destroy_qp(Interpreter& file, Command& command) {
  ib_uverbs_destroy_qp request{};
  if (auto read = command.read(request); !read) return read;
  auto ended = end_qp(file, request.qp_handle);
  if (!ended) return fail(ended.error());
  return command.respond(*ended);
}

// Work requests in the command itself are checked for their room and otherwise passed over, as the kernel does for a
// QP whose rings the program writes itself: what counts is the doorbell.
Result<void> post_send(Interpreter& file, Command& command) {
  ib_uverbs_post_send request{};
  constexpr u32 head = sizeof(ib_uverbs_post_send);
  if (command.in().size() < head) return fail(ENOSPC);
  if (auto done = command.in().copy(command.memory(), &request, 0, head); !done) return done;
  u64 wanted = u64{request.wqe_size} * request.wr_count + u64{request.sge_count} * sizeof(ib_uverbs_sge);
  if (wanted > command.in().size() - head) return fail(ENOSPC);
  int error = file.control().engine().doorbell(request.qp_handle, file.context());
  auto told = command.respond(ib_uverbs_post_send_resp{error && request.wr_count ? 1U : 0U});
  return error ? fail(error) : told;
}

}  // namespace softib::kernel::methods
