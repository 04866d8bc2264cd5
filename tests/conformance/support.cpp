#include "support.h"

#include <cstring>
#include <stdexcept>

namespace conformance {
namespace {

std::unique_ptr<End> the_a;
std::unique_ptr<End> the_b;

}  // namespace

u32 patience(u32 ms) { return static_cast<u32>(ms * options().slow); }
u32 silence(u32 ms) { return static_cast<u32>(ms * options().slow); }

End& end_a() {
  if (!the_a) the_a = End::local(options().device, options().port, options().gid_index);
  return *the_a;
}

End& end_b() {
  if (the_b) return *the_b;
  if (!options().peer.empty()) {
    the_b = End::remote(options().peer);
  } else {
    const std::string& device = options().peer_device.empty() ? options().device : options().peer_device;
    the_b = End::local(device, options().port, options().gid_index);
  }
  return *the_b;
}

void forget_end_b() { the_b.reset(); }

void must(int error, const std::string& what) {
  if (error != 0) throw std::runtime_error(what + ": " + std::strerror(error));
}

ibv_sge Buffer::sge(u64 offset, u64 length) const { return {address + offset, static_cast<u32>(length), lkey}; }

Buffer make_buffer(End& end, Id pd, u64 size, u32 access) {
  Buffer buffer;
  buffer.end = &end;
  buffer.size = size;
  buffer.address = end.alloc_memory(size);
  if (buffer.address == 0) throw std::runtime_error("no memory for a buffer");
  const MadeMr mr = end.reg_mr(pd, buffer.address, size, access);
  must(mr.error, "ibv_reg_mr");
  buffer.mr = mr.id;
  buffer.lkey = mr.lkey;
  buffer.rkey = mr.rkey;
  return buffer;
}

Posted Node::receive(std::vector<Recv> list) const {
  return srq != 0 ? end->post_srq(srq, std::move(list)) : end->post_recv(qp, std::move(list));
}

ibv_qp_state Node::state_becomes(ibv_qp_state wanted) const {
  Stopwatch watch;
  ibv_qp_state seen = state();
  while (seen != wanted && watch.ms() < patience(2000)) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    seen = state();
  }
  return seen;
}

Pair::Pair(End& end_of_a, End& end_of_b, const Spec& wanted) : spec(wanted) {
  make(a, end_of_a);
  make(b, end_of_b);
  if (spec.mtu == 0) spec.mtu = std::min(a.info.port.active_mtu, b.info.port.active_mtu);
  if (spec.connect) connect();
}

void Pair::make(Node& node, End& end) {
  node.end = &end;
  node.info = end.info();
  const Made pd = end.alloc_pd();
  must(pd.error, "ibv_alloc_pd");
  node.pd = pd.id;
  if (spec.channel) node.channel = end.create_channel().id;
  const MadeCq send_cq = end.create_cq(spec.cq_entries, node.channel);
  must(send_cq.error, "ibv_create_cq");
  const MadeCq recv_cq = spec.one_cq ? send_cq : end.create_cq(spec.cq_entries, node.channel);
  must(recv_cq.error, "ibv_create_cq");
  node.send_cq = send_cq.id;
  node.recv_cq = recv_cq.id;
  if (spec.srq) {
    const MadeSrq srq = end.create_srq({node.pd, spec.cap.max_recv_wr, spec.cap.max_recv_sge, 0});
    must(srq.error, "ibv_create_srq");
    node.srq = srq.id;
  }
  const MadeQp qp = end.create_qp(
      {spec.type, node.pd, node.send_cq, node.recv_cq, node.srq, spec.cap, spec.sq_sig_all, spec.send_ops});
  must(qp.error, "ibv_create_qp");
  node.qp = qp.id;
  node.qpn = qp.qpn;
  node.cap = qp.cap;
  node.buffer = make_buffer(end, node.pd, spec.buffer, spec.buffer_access);
}

void Pair::connect() {
  must(modify(a, to_init(spec, a.info, spec.pkey_index_a)), "RESET to INIT");
  must(modify(b, to_init(spec, b.info, spec.pkey_index_b)), "RESET to INIT");
  must(modify(a, to_rtr(spec, a.info, b.info, b.qpn)), "INIT to RTR");
  must(modify(b, to_rtr(spec, b.info, a.info, a.qpn)), "INIT to RTR");
  must(modify(a, to_rts(spec)), "RTR to RTS");
  must(modify(b, to_rts(spec)), "RTR to RTS");
  if (spec.type != IBV_QPT_UD) return;
  const Made ah_a = a.end->create_ah(a.pd, address_to(a.info, b.info, spec.global));
  const Made ah_b = b.end->create_ah(b.pd, address_to(b.info, a.info, spec.global));
  must(ah_a.error, "ibv_create_ah");
  must(ah_b.error, "ibv_create_ah");
  a.ah = ah_a.id;
  b.ah = ah_b.id;
}

ibv_ah_attr address_to(const Info& from, const Info& to, bool global) {
  ibv_ah_attr attr{};
  attr.port_num = from.port_num;
  attr.dlid = to.port.lid;
  if (from.ethernet || global) {
    attr.is_global = 1;
    attr.grh.dgid = to.gid;
    attr.grh.sgid_index = from.gid_index;
    attr.grh.hop_limit = 64;
  }
  return attr;
}

Step to_init(const Spec& spec, const Info& info, u16 pkey_index) {
  Step step;
  step.attr.qp_state = IBV_QPS_INIT;
  step.attr.pkey_index = pkey_index;
  step.attr.port_num = info.port_num;
  step.mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;
  if (spec.type == IBV_QPT_UD) {
    step.attr.qkey = spec.qkey;
    step.mask |= IBV_QP_QKEY;
  } else {
    step.attr.qp_access_flags = spec.qp_access;
    step.mask |= IBV_QP_ACCESS_FLAGS;
  }
  return step;
}

Step to_rtr(const Spec& spec, const Info& from, const Info& to, u32 dest_qpn) {
  Step step;
  step.attr.qp_state = IBV_QPS_RTR;
  step.mask = IBV_QP_STATE;
  if (spec.type == IBV_QPT_UD) return step;
  step.attr.path_mtu = spec.mtu != 0 ? spec.mtu : std::min(from.port.active_mtu, to.port.active_mtu);
  step.attr.dest_qp_num = dest_qpn;
  step.attr.rq_psn = first_psn;
  step.attr.ah_attr = address_to(from, to, spec.global);
  step.mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
  if (spec.type != IBV_QPT_RC) return step;
  step.attr.max_dest_rd_atomic = 4;
  step.attr.min_rnr_timer = spec.min_rnr_timer;
  step.mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
  return step;
}

Step to_rts(const Spec& spec) {
  Step step;
  step.attr.qp_state = IBV_QPS_RTS;
  step.attr.sq_psn = first_psn;
  step.mask = IBV_QP_STATE | IBV_QP_SQ_PSN;
  if (spec.type != IBV_QPT_RC) return step;
  step.attr.timeout = spec.timeout;
  step.attr.retry_cnt = spec.retry;
  step.attr.rnr_retry = spec.rnr_retry;
  step.attr.max_rd_atomic = 4;
  step.mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
  return step;
}

int modify(const Node& node, const Step& step) { return node.end->modify_qp(node.qp, step.attr, step.mask); }

int modify_state(const Node& node, ibv_qp_state state) {
  ibv_qp_attr attr{};
  attr.qp_state = state;
  return node.end->modify_qp(node.qp, attr, IBV_QP_STATE);
}

Send send_wr(u64 wr_id, std::vector<ibv_sge> sges) {
  Send send;
  send.wr_id = wr_id;
  send.sges = std::move(sges);
  return send;
}

Send rdma_wr(u64 wr_id, ibv_wr_opcode opcode, std::vector<ibv_sge> sges, u64 remote_addr, u32 rkey) {
  Send send = send_wr(wr_id, std::move(sges));
  send.opcode = opcode;
  send.remote_addr = remote_addr;
  send.rkey = rkey;
  return send;
}

Send atomic_wr(u64 wr_id, ibv_wr_opcode opcode, ibv_sge sge, u64 remote_addr, u32 rkey, u64 compare_add, u64 swap) {
  Send send = rdma_wr(wr_id, opcode, {sge}, remote_addr, rkey);
  send.compare_add = compare_add;
  send.swap = swap;
  return send;
}

Send ud_wr(u64 wr_id, std::vector<ibv_sge> sges, const Node& from, const Node& to, u32 qkey) {
  Send send = send_wr(wr_id, std::move(sges));
  send.ah = from.ah;
  send.remote_qpn = to.qpn;
  send.remote_qkey = qkey;
  return send;
}

std::string name_of(ibv_wr_opcode opcode) {
  switch (opcode) {
    case IBV_WR_SEND:
      return "Send";
    case IBV_WR_SEND_WITH_IMM:
      return "SendImm";
    case IBV_WR_SEND_WITH_INV:
      return "SendInv";
    case IBV_WR_RDMA_WRITE:
      return "Write";
    case IBV_WR_RDMA_WRITE_WITH_IMM:
      return "WriteImm";
    case IBV_WR_RDMA_READ:
      return "Read";
    case IBV_WR_ATOMIC_CMP_AND_SWP:
      return "CompareSwap";
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
      return "FetchAdd";
    default:
      return "Opcode" + std::to_string(opcode);
  }
}

void expect_wc(const std::vector<ibv_wc>& wcs, u64 wr_id, ibv_wc_status status) {
  ASSERT_EQ(wcs.size(), 1u) << "no completion came";
  EXPECT_EQ(wcs[0].wr_id, wr_id);
  EXPECT_EQ(wcs[0].status, status) << ibv_wc_status_str(wcs[0].status) << ", wanted " << ibv_wc_status_str(status);
}

ibv_wc_status status_of(const std::vector<ibv_wc>& wcs) {
  EXPECT_EQ(wcs.size(), 1u) << "no completion came";
  return wcs.empty() ? IBV_WC_GENERAL_ERR : wcs[0].status;
}

void expect_traffic(const Pair& pair) {
  const Node* nodes[2] = {&pair.a, &pair.b};
  for (int i = 0; i < 2; ++i) {
    const Node& from = *nodes[i];
    const Node& to = *nodes[1 - i];
    from.end->fill(from.buffer.address, 64, 5);
    ASSERT_EQ(to.receive(9001, 1024, 64).error, 0);
    ASSERT_EQ(from.post(send_wr(9002, {from.buffer.sge(0, 64)})).error, 0);
    expect_wc(from.sent(), 9002, IBV_WC_SUCCESS);
    expect_wc(to.received(), 9001, IBV_WC_SUCCESS);
    EXPECT_EQ(to.end->mismatch(to.buffer.address + 1024, 64, 5), -1);
  }
}

Event wait_for(End& end, ibv_event_type type, u32 timeout_ms) {
  Stopwatch watch;
  for (;;) {
    const double left = timeout_ms - watch.ms();
    const Event event = end.wait_event(left > 0 ? static_cast<u32>(left) : 0);
    if (event.none || event.type == static_cast<u32>(type)) return event;
  }
}

void Conformance::TearDown() {
  if (the_a) EXPECT_EQ(the_a->reset(), 0) << "an object could not be destroyed";
  try {
    if (the_b) EXPECT_EQ(the_b->reset(), 0) << "an object could not be destroyed at the peer";
  } catch (const std::exception& problem) {
    ADD_FAILURE() << problem.what();
    the_b.reset();
  }
}

void Differences::add(const std::string& text) { texts_.push_back(text); }

Differences::~Differences() {
  if (texts_.empty()) return;
  std::string message = std::to_string(texts_.size()) + " of " + std::to_string(checked_) + " cases differ:\n";
  const size_t most = 40;
  for (size_t i = 0; i < texts_.size() && i < most; ++i) message += "  " + texts_[i] + "\n";
  if (texts_.size() > most) message += "  ...\n";
  ADD_FAILURE() << message;
}

}  // namespace conformance
