// RC and UC: SEND, RDMA WRITE, RDMA READ, atomics, FLUSH, and the local operations that go through the send queue.
//
// A try is made in three steps: the local side is checked, the peer is found, the peer's side is checked and the bytes
// moved. What UC loses, it loses in silence: every failure past the local side completes with success.

#include "hca/engine/keys.h"
#include "hca/engine/passage.h"
#include "hca/engine/qp_error.h"
#include "hca/engine/responder.h"
#include "hca/engine/route.h"
#include "hca/engine/send_work.h"
#include "hca/rules/wire_cost.h"

namespace softib::hca {

namespace {

using ipc::Qp;

constexpr u32 psn_mask = 0xff'ffff;

// struct flush of rxe_send_wr in kernels that have RDMA FLUSH.
struct FlushRequest {
  u64 remote_addr;
  u32 length;
  u32 rkey;
  u8 type;
  u8 level;
};

bool is_reliable(const Qp& qp) { return qp.type == ipc::QpType::rc; }

// A refusal by the responder, as the requester of a reliable or an unreliable connection sees it.
Outcome refused(const Qp& qp, WcStatus status) {
  return is_reliable(qp) ? Outcome::failure(status) : Outcome::success();
}

// The responder refuses without having a receive to tell it in.
Outcome refuse(Context& context, const Qp& qp, Qp& peer, WcStatus status) {
  if (!is_reliable(qp)) return Outcome::success();
  // It went away between the look at its state and the look at its keys: then nobody answers.
  if (!accepts_requests(peer.state.load(std::memory_order_acquire))) return Outcome::lost();
  fail_responder(context, peer,
                 status == WcStatus::rem_access_err ? AsyncEvent::qp_access_err : AsyncEvent::qp_req_err);
  return Outcome::failure(status);
}

// Memory that was promised by a key and is not there: its process died (no answer) or unmapped it (access error).
Outcome memory_failed(Context& context, const Qp& qp, Qp& peer, Errno error) {
  if (error == Errno{ESRCH} || error == Errno{ETIMEDOUT}) return is_reliable(qp) ? Outcome::lost() : Outcome::success();
  return refuse(context, qp, peer, WcStatus::rem_access_err);
}

// Ends with unequal path MTUs understand each other only while everything fits one packet of the smaller: otherwise
// the responder sees a packet of the wrong length for its place in the message (IBTA 9.7.4.1.6).
bool fits_mtus(const Qp& qp, const Qp& peer, u64 length) {
  return qp.path_mtu == peer.path_mtu || length <= std::min(qp.path_mtu, peer.path_mtu);
}

Outcome deliver_connected(Context& context, const SendWork& work, Qp& peer, const Buffers* payload, u64 length) {
  const auto& wr = work.wqe.wr;
  bool is_write = work.opcode() == WrOpcode::rdma_write_with_imm;
  Delivery message{};
  message.opcode = is_write ? WcOpcode::recv_rdma_with_imm : WcOpcode::recv;
  if (is_write || work.opcode() == WrOpcode::send_with_imm) message.wc_flags = wc_with_imm;
  if (work.opcode() == WrOpcode::send_with_inv) message.wc_flags = wc_with_inv;
  message.immediate = message.wc_flags ? wr.ex.invalidate_rkey : 0;
  message.solicited = work.has(send_solicited);
  message.payload = payload;
  message.byte_count = length;
  message.src_qp = work.qp.qpn;
  message.slid = context.port(work.qp.port).lid;
  message.sl = work.qp.av.sl;
  const Delivered delivered = deliver(context, peer, message);
  // Its keys went with it, perhaps in the middle of this.
  if (delivered != Delivered::done && peer.state.load(std::memory_order_acquire) == ipc::QpState::destroyed)
    return is_reliable(work.qp) ? Outcome::lost() : Outcome::success();
  switch (delivered) {
    case Delivered::done:
      return Outcome::success();
    case Delivered::no_receive:
      return is_reliable(work.qp) ? Outcome::not_ready(peer.min_rnr_timer) : Outcome::success();
    case Delivered::too_long:
      return refused(work.qp, WcStatus::rem_inv_req_err);
    case Delivered::protection_error:
      return refused(work.qp, WcStatus::rem_op_err);
    case Delivered::bad_invalidate:
      return refused(work.qp, WcStatus::rem_access_err);
    case Delivered::unreachable:
      break;
  }
  return is_reliable(work.qp) ? Outcome::lost() : Outcome::success();
}

Outcome write(Context& context, const SendWork& work, Qp& peer, const Buffers& local) {
  if (!(peer.access & access_remote_write)) return refuse(context, work.qp, peer, WcStatus::rem_inv_req_err);
  bool with_imm = work.opcode() == WrOpcode::rdma_write_with_imm;
  if (local.total > 0) {
    const auto& rdma = work.wqe.wr.wr.rdma;
    Buffers target;
    if (!check_rkey(context, rdma.rkey, peer, rdma.remote_addr, local.total, access_remote_write, target.next()))
      return refuse(context, work.qp, peer, WcStatus::rem_access_err);
    target.added();
    if (auto moved = transfer(context, target, 0, local, local.total); !moved)
      return memory_failed(context, work.qp, peer, moved.error());
  }
  return with_imm ? deliver_connected(context, work, peer, nullptr, local.total) : Outcome::success();
}

Outcome read(Context& context, const SendWork& work, Qp& peer, const Buffers& local) {
  if (peer.max_dest_rd_atomic == 0) return refuse(context, work.qp, peer, WcStatus::rem_inv_req_err);
  if (!(peer.access & access_remote_read)) return refuse(context, work.qp, peer, WcStatus::rem_inv_req_err);
  if (local.total == 0) return Outcome::success();
  const auto& rdma = work.wqe.wr.wr.rdma;
  Buffers source;
  if (!check_rkey(context, rdma.rkey, peer, rdma.remote_addr, local.total, access_remote_read, source.next()))
    return refuse(context, work.qp, peer, WcStatus::rem_access_err);
  source.added();
  if (auto moved = transfer(context, local, 0, source, local.total); !moved)
    return memory_failed(context, work.qp, peer, moved.error());
  return Outcome::success(local.total);
}

Outcome atomic(Context& context, const SendWork& work, Qp& peer, const Buffers& local) {
  constexpr u64 size = sizeof(u64);
  const auto& request = work.wqe.wr.wr.atomic;
  if (local.total != size) return Outcome::failure(WcStatus::loc_len_err);
  if ((request.remote_addr & (size - 1)) || peer.max_dest_rd_atomic == 0)
    return refuse(context, work.qp, peer, WcStatus::rem_inv_req_err);
  if (!(peer.access & access_remote_atomic)) return refuse(context, work.qp, peer, WcStatus::rem_inv_req_err);
  MemoryRef remote;
  if (!check_rkey(context, request.rkey, peer, request.remote_addr, size, access_remote_atomic, remote))
    return refuse(context, work.qp, peer, WcStatus::rem_access_err);
  auto old = work.opcode() == WrOpcode::fetch_add
                 ? context.memory.fetch_add(remote, request.compare_add)
                 : context.memory.compare_swap(remote, request.compare_add, request.swap);
  if (!old) return memory_failed(context, work.qp, peer, old.error());
  u64 value = *old;
  Buffers answer;
  answer.next().refer_to_own(context.slot, &value, size);
  answer.added();
  if (!transfer(context, local, 0, answer, size)) return Outcome::failure(WcStatus::loc_prot_err);
  return Outcome::success(size);
}

Outcome atomic_write(Context& context, const SendWork& work, Qp& peer, const Buffers& local) {
  if (local.total != sizeof(u64)) return Outcome::failure(WcStatus::loc_len_err);
  if (work.wqe.wr.wr.rdma.remote_addr & 7) return refuse(context, work.qp, peer, WcStatus::rem_inv_req_err);
  return write(context, work, peer, local);
}

Outcome flush(Context& context, const SendWork& work, Qp& peer) {
  const auto& request = reinterpret_cast<const FlushRequest&>(work.wqe.wr.wr);
  // Global visibility is a given here: stores to shared pages are visible once made. Persistence can't be promised.
  u32 needed = request.type & 2 ? access_flush_persistent : access_flush_global;
  u64 length = request.level == 1 ? 0 : request.length;  // level 1: the whole region
  MemoryRef region;
  if (!check_rkey(context, request.rkey, peer, request.remote_addr, length, needed, region))
    return refuse(context, work.qp, peer, WcStatus::rem_access_err);
  return Outcome::success();
}

// The requests that UC has too.
bool unreliable_can(WrOpcode opcode) {
  switch (opcode) {
    case WrOpcode::rdma_write:
    case WrOpcode::rdma_write_with_imm:
    case WrOpcode::send:
    case WrOpcode::send_with_imm:
    case WrOpcode::send_with_inv:
      return true;
    default:
      return false;
  }
}

bool reads_back(WrOpcode opcode) {
  return opcode == WrOpcode::rdma_read || opcode == WrOpcode::compare_swap || opcode == WrOpcode::fetch_add;
}

Outcome request(Context& context, const SendWork& work, Qp& peer, const Buffers& local) {
  switch (work.opcode()) {
    case WrOpcode::rdma_write:
    case WrOpcode::rdma_write_with_imm:
      return write(context, work, peer, local);
    case WrOpcode::send:
    case WrOpcode::send_with_imm:
    case WrOpcode::send_with_inv:
      return deliver_connected(context, work, peer, &local, local.total);
    case WrOpcode::rdma_read:
      return read(context, work, peer, local);
    case WrOpcode::compare_swap:
    case WrOpcode::fetch_add:
      return atomic(context, work, peer, local);
    case WrOpcode::atomic_write:
      return atomic_write(context, work, peer, local);
    case WrOpcode::flush:
      return flush(context, work, peer);
    default:
      return Outcome::failure(WcStatus::loc_qp_op_err);
  }
}

Outcome bind(Context& context, const SendWork& work) {
  const auto& mw = work.wqe.wr.wr.mw;
  Binding binding{mw.mw_rkey, mw.rkey, mw.mr_lkey, mw.access, mw.addr, mw.length};
  return bind_window(context, work.qp, binding) ? Outcome::success() : Outcome::failure(WcStatus::mw_bind_err);
}

Outcome invalidate(Context& context, const SendWork& work) {
  return invalidate_key(context, work.wqe.wr.ex.invalidate_rkey, work.qp) ? Outcome::success()
                                                                          : Outcome::failure(WcStatus::loc_qp_op_err);
}

WireCost cost_of(const SendWork& work, u64 bytes) {
  const Qp& qp = work.qp;
  return wire_cost(qp.type, work.opcode(), bytes, qp.path_mtu, qp.av.is_global != 0);
}

void count(ipc::Traffic& traffic, const WireCost& cost) {
  add_alone(traffic.out_packets, cost.out_packets);
  add_alone(traffic.out_words, cost.out_words);
  add_alone(traffic.back_packets, cost.back_packets);
  add_alone(traffic.back_words, cost.back_words);
}

// A message that went through moves both ends' sequence numbers on.
void advance(const SendWork& work, Qp& peer, u64 bytes) {
  Qp& qp = work.qp;
  u32 next = (qp.requester.next_psn + packets_of(bytes, qp.path_mtu)) & psn_mask;
  qp.requester.next_psn = next;
  peer.responder.expected_psn = next;
  count(qp.traffic, cost_of(work, bytes));
}

// What was sent in vain: no answer, or a negative one.
void count_failure(const SendWork& work, u64 bytes, const Outcome& outcome) {
  WireCost cost = cost_of(work, bytes);
  const bool refused = outcome.verdict != Verdict::lost && is_reliable(work.qp);
  cost.back_packets = refused ? 1 : 0;
  cost.back_words = refused ? ack_words(work.qp.av.is_global != 0) : 0;
  count(work.qp.traffic, cost);
}

// The request arrives, and the peer answers into the void.
Outcome go_unanswered(const SendWork& work, u64 bytes) {
  WireCost cost = cost_of(work, bytes);
  add_alone(work.qp.traffic.astray_packets, std::exchange(cost.back_packets, 0));
  add_alone(work.qp.traffic.astray_words, std::exchange(cost.back_words, 0));
  count(work.qp.traffic, cost);
  return Outcome::lost();
}

// Statuses of the requester's own making: nothing was sent.
bool is_local(WcStatus status) {
  return status == WcStatus::loc_len_err || status == WcStatus::loc_qp_op_err || status == WcStatus::loc_prot_err;
}

// The silence of nobody, as RC and UC hear it.
Outcome no_answer(const Qp& qp) { return is_reliable(qp) ? Outcome::lost() : Outcome::success(); }

Outcome reach_peer(Context& context, const SendWork& work, Qp& peer, const Buffers& local) {
  Qp& qp = work.qp;
  // An unexpected PSN is dropped by RC. UC takes the first packet of any message.
  if (is_reliable(qp) && peer.responder.expected_psn != qp.requester.next_psn) return Outcome::lost();
  note_established(context, peer, peer.state.load(std::memory_order_relaxed));
  if (!fits_mtus(qp, peer, local.total)) return refuse(context, qp, peer, WcStatus::rem_inv_req_err);
  return request(context, work, peer, local);
}

Outcome send(Context& context, const SendWork& work, const Buffers& local) {
  Qp& qp = work.qp;
  Qp* peer = connected_peer(context, qp);
  if (must_pass(qp.av)) [[unlikely]] {
    if (auto held = pass(context, work, qp.av, cost_of(work, local.total))) {
      if (held->verdict != Verdict::on_its_way) count_failure(work, local.total, Outcome::lost());
      return *held;
    }
  }
  if (peer && is_reliable(qp) && !answers_reach(context, qp, *peer)) [[unlikely]]
    return go_unanswered(work, local.total);
  const Outcome outcome = peer ? reach_peer(context, work, *peer, local) : no_answer(qp);
  if (peer && outcome.verdict == Verdict::completed && outcome.status == WcStatus::success) [[likely]]
    advance(work, *peer, local.total);
  else if (!is_local(outcome.status))
    count_failure(work, local.total, peer ? outcome : Outcome::lost());
  return outcome;
}

}  // namespace

Outcome carry_out_connected(Context& context, const SendWork& work) {
  WrOpcode opcode = work.opcode();
  if (opcode == WrOpcode::bind_mw) return bind(context, work);
  if (opcode == WrOpcode::local_inv) return invalidate(context, work);
  if (!is_reliable(work.qp) && !unreliable_can(opcode)) return Outcome::failure(WcStatus::loc_qp_op_err);
  if (reads_back(opcode) && work.qp.max_rd_atomic == 0) return Outcome::failure(WcStatus::loc_qp_op_err);
  Buffers local;
  WcStatus status = gather(context, work, reads_back(opcode) ? LocalUse::write : LocalUse::read, local);
  if (status != WcStatus::success) return Outcome::failure(status);
  return send(context, work, local);
}

}  // namespace softib::hca
