// Posting work, polling and completion events.
#include <poll.h>
#include <sched.h>

#include <cerrno>
#include <chrono>
#include <cstring>

#include "device.h"

namespace conformance {
namespace {

using Clock = std::chrono::steady_clock;

// Calls `step` until it says true or the time is over. The first tries follow each other closely, later ones leave the
// processor to the other end.
template <typename Step>
void until(u32 timeout_ms, Step step) {
  const auto end = Clock::now() + std::chrono::milliseconds(timeout_ms);
  for (u32 tries = 0; !step(); ++tries) {
    if (Clock::now() >= end) {
      step();
      return;
    }
    if (tries < 1000) {
      sched_yield();
    } else {
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
  }
}

// Index of `bad` in a list linked through `next`.
template <typename Wr>
i32 index_of(const std::vector<Wr>& list, const Wr* bad) {
  for (size_t i = 0; i < list.size(); ++i) {
    if (&list[i] == bad) return static_cast<i32>(i);
  }
  return -1;
}

std::vector<ibv_recv_wr> to_list(std::vector<Recv>& list) {
  std::vector<ibv_recv_wr> wrs(list.size());
  for (size_t i = 0; i < list.size(); ++i) {
    wrs[i].wr_id = list[i].wr_id;
    wrs[i].sg_list = list[i].sges.data();
    wrs[i].num_sge = static_cast<int>(list[i].sges.size());
    wrs[i].next = i + 1 < list.size() ? &wrs[i + 1] : nullptr;
  }
  return wrs;
}

}  // namespace

std::vector<ibv_wc> Device::poll(Id cq, u32 count, u32 timeout_ms) {
  std::vector<ibv_wc> all;
  until(timeout_ms, [&] {
    ibv_wc wc[16];
    while (all.size() < count) {
      const int most = static_cast<int>(std::min<size_t>(16, count - all.size()));
      const int got = ibv_poll_cq(cqs_.at(cq), most, wc);
      if (got <= 0) return false;
      all.insert(all.end(), wc, wc + got);
    }
    return true;
  });
  return all;
}

namespace {

ExWc read_ex(ibv_cq_ex* cq) {
  ExWc wc{};
  wc.wr_id = cq->wr_id;
  wc.status = cq->status;
  wc.opcode = ibv_wc_read_opcode(cq);
  wc.vendor_err = ibv_wc_read_vendor_err(cq);
  wc.flags = ibv_wc_read_wc_flags(cq);
  wc.byte_len = ibv_wc_read_byte_len(cq);
  wc.imm = ibv_wc_read_imm_data(cq);
  wc.qp_num = ibv_wc_read_qp_num(cq);
  wc.src_qp = ibv_wc_read_src_qp(cq);
  wc.slid = ibv_wc_read_slid(cq);
  wc.sl = ibv_wc_read_sl(cq);
  wc.path_bits = ibv_wc_read_dlid_path_bits(cq);
  return wc;
}

}  // namespace

// One start_poll, next_poll until `count` or the end of the queue, end_poll; again while time is left.
std::vector<ExWc> Device::poll_ex(Id id, u32 count, u32 timeout_ms) {
  ibv_cq_ex* cq = reinterpret_cast<ibv_cq_ex*>(cqs_.at(id));
  std::vector<ExWc> all;
  until(timeout_ms, [&] {
    ibv_poll_cq_attr attr{};
    if (ibv_start_poll(cq, &attr) != 0) return all.size() >= count;
    do {
      all.push_back(read_ex(cq));
    } while (all.size() < count && ibv_next_poll(cq) == 0);
    ibv_end_poll(cq);
    return all.size() >= count;
  });
  return all;
}

int Device::arm(Id cq, int solicited_only) { return ibv_req_notify_cq(cqs_.at(cq), solicited_only); }

Id Device::wait_cq_event(Id channel, u32 timeout_ms) {
  ibv_comp_channel* from = channels_.at(channel);
  pollfd waiter{from->fd, POLLIN, 0};
  if (::poll(&waiter, 1, static_cast<int>(timeout_ms)) <= 0) return 0;
  ibv_cq* cq = nullptr;
  void* context = nullptr;
  if (ibv_get_cq_event(from, &cq, &context) != 0) return 0;
  const Id id = as_id(context);
  ++unacked_[id];
  return id;
}

int Device::ack_cq_events(Id cq, u32 count) {
  ibv_ack_cq_events(cqs_.at(cq), count);
  unacked_[cq] -= count;
  return 0;
}

ibv_send_wr Device::to_wr(const Send& send, std::vector<ibv_sge>& sges) const {
  ibv_send_wr wr{};
  wr.wr_id = send.wr_id;
  wr.opcode = send.opcode;
  wr.send_flags = send.flags;
  wr.sg_list = sges.data();
  wr.num_sge = static_cast<int>(sges.size());
  wr.imm_data = send.imm;  // shares its place with invalidate_rkey
  if (send.opcode == IBV_WR_BIND_MW) {
    wr.bind_mw.mw = at(mws_, send.bind.mw);
    wr.bind_mw.rkey = send.bind.new_rkey;
    wr.bind_mw.bind_info = {at(mrs_, send.bind.mr), send.bind.address, send.bind.length, send.bind.access};
  } else if (send.opcode == IBV_WR_ATOMIC_CMP_AND_SWP || send.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
    wr.wr.atomic = {send.remote_addr, send.compare_add, send.swap, send.rkey};
  } else if (send.ah != 0) {
    wr.wr.ud.ah = at(ahs_, send.ah);
    wr.wr.ud.remote_qpn = send.remote_qpn;
    wr.wr.ud.remote_qkey = send.remote_qkey;
  } else {
    wr.wr.rdma.remote_addr = send.remote_addr;
    wr.wr.rdma.rkey = send.rkey;
  }
  return wr;
}

Posted Device::post_send(Id qp, std::vector<Send> list) {
  std::vector<ibv_send_wr> wrs;
  wrs.reserve(list.size());
  for (Send& send : list) wrs.push_back(to_wr(send, send.sges));
  for (size_t i = 0; i + 1 < wrs.size(); ++i) wrs[i].next = &wrs[i + 1];
  ibv_send_wr* bad = nullptr;
  const int error = ibv_post_send(qps_.at(qp), wrs.data(), &bad);
  return {error, error ? index_of(wrs, bad) : -1};
}

Posted Device::post_recv(Id qp, std::vector<Recv> list) {
  std::vector<ibv_recv_wr> wrs = to_list(list);
  ibv_recv_wr* bad = nullptr;
  const int error = ibv_post_recv(qps_.at(qp), wrs.data(), &bad);
  return {error, error ? index_of(wrs, bad) : -1};
}

Posted Device::post_srq(Id srq, std::vector<Recv> list) {
  std::vector<ibv_recv_wr> wrs = to_list(list);
  ibv_recv_wr* bad = nullptr;
  const int error = ibv_post_srq_recv(srqs_.at(srq), wrs.data(), &bad);
  return {error, error ? index_of(wrs, bad) : -1};
}

void Device::build_opcode(ibv_qp_ex* qp, const Send& send) {
  switch (send.opcode) {
    case IBV_WR_SEND:
      return ibv_wr_send(qp);
    case IBV_WR_SEND_WITH_IMM:
      return ibv_wr_send_imm(qp, send.imm);
    case IBV_WR_SEND_WITH_INV:
      return ibv_wr_send_inv(qp, send.imm);
    case IBV_WR_RDMA_WRITE:
      return ibv_wr_rdma_write(qp, send.rkey, send.remote_addr);
    case IBV_WR_RDMA_WRITE_WITH_IMM:
      return ibv_wr_rdma_write_imm(qp, send.rkey, send.remote_addr, send.imm);
    case IBV_WR_RDMA_READ:
      return ibv_wr_rdma_read(qp, send.rkey, send.remote_addr);
    case IBV_WR_ATOMIC_CMP_AND_SWP:
      return ibv_wr_atomic_cmp_swp(qp, send.rkey, send.remote_addr, send.compare_add, send.swap);
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
      return ibv_wr_atomic_fetch_add(qp, send.rkey, send.remote_addr, send.compare_add);
    case IBV_WR_LOCAL_INV:
      return ibv_wr_local_inv(qp, send.imm);
    case IBV_WR_BIND_MW: {
      const ibv_mw_bind_info info{at(mrs_, send.bind.mr), send.bind.address, send.bind.length, send.bind.access};
      return ibv_wr_bind_mw(qp, at(mws_, send.bind.mw), send.bind.new_rkey, &info);
    }
#ifdef CONFORMANCE_HAS_ATOMIC_WRITE
    case IBV_WR_ATOMIC_WRITE:
      return ibv_wr_atomic_write(qp, send.rkey, send.remote_addr, &send.swap);
#endif
#ifdef CONFORMANCE_HAS_FLUSH
    case IBV_WR_FLUSH:
      return ibv_wr_flush(qp, send.rkey, send.remote_addr, send.compare_add, static_cast<u8>(send.swap >> 8),
                          static_cast<u8>(send.swap));
#endif
    default:
      return;
  }
}

void Device::build(ibv_qp_ex* qp, const Send& send) {
  qp->wr_id = send.wr_id;
  qp->wr_flags = send.flags & ~static_cast<u32>(IBV_SEND_INLINE);
  if (send.flags & IBV_SEND_INLINE) qp->wr_flags |= IBV_SEND_INLINE;
  build_opcode(qp, send);
  if (send.ah != 0) ibv_wr_set_ud_addr(qp, at(ahs_, send.ah), send.remote_qpn, send.remote_qkey);
  if (send.flags & IBV_SEND_INLINE) {
    std::vector<ibv_data_buf> parts;
    for (const ibv_sge& sge : send.sges) parts.push_back({reinterpret_cast<void*>(sge.addr), sge.length});
    if (parts.size() == 1) return ibv_wr_set_inline_data(qp, parts[0].addr, parts[0].length);
    return ibv_wr_set_inline_data_list(qp, parts.size(), parts.data());
  }
  if (send.sges.size() == 1) return ibv_wr_set_sge(qp, send.sges[0].lkey, send.sges[0].addr, send.sges[0].length);
  if (!send.sges.empty()) ibv_wr_set_sge_list(qp, send.sges.size(), send.sges.data());
}

Posted Device::post_builder(Id qp, std::vector<Send> list) {
  ibv_qp_ex* ex = ibv_qp_to_qp_ex(qps_.at(qp));
  if (ex == nullptr) return {EOPNOTSUPP, -1};
  ibv_wr_start(ex);
  for (const Send& send : list) build(ex, send);
  return {ibv_wr_complete(ex), -1};
}

MadeMw Device::bind_mw(Id qp, MwBind bind, u64 wr_id) {
  ibv_mw* mw = mws_.at(bind.mw);
  ibv_mw_bind request{};
  request.wr_id = wr_id;
  request.send_flags = IBV_SEND_SIGNALED;
  request.bind_info = {at(mrs_, bind.mr), bind.address, bind.length, bind.access};
  const int error = ibv_bind_mw(qps_.at(qp), mw, &request);
  return {bind.mw, error, mw->rkey};
}

}  // namespace conformance
