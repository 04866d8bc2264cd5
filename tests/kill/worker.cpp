#include "worker.h"

#include <poll.h>
#include <time.h>

#include <algorithm>
#include <cstring>

namespace softib::kill {
namespace {

// The window: a constant part that the peer reads, a part that it writes, and its counters.
constexpr u32 constant_bytes = 32 * 1024;
constexpr u32 written_at = constant_bytes;
constexpr u32 added_at = 2 * constant_bytes;
constexpr u32 swapped_at = added_at + 64;
constexpr u32 window_bytes = added_at + 4096;

// A worker's own buffers.
constexpr u32 srq_send_at = depth * max_message;
constexpr u32 receive_at = 2 * depth * max_message;
constexpr u32 landing_at = receive_at + receives * max_message;
constexpr u32 old_value_at = landing_at + depth * constant_bytes;
constexpr u32 buffer_bytes = old_value_at + depth * 8;

// The small region: a part that the peer reads, a part that it writes.
constexpr u32 small_constant = 150;
constexpr u32 small_written_at = 152;

// Of sends and of RDMA, in turn.
constexpr u32 lengths[] = {8, 64, 1023, 4096, 20000, max_message};
constexpr u32 rdma_lengths[] = {1, 149, 4097, 16 * 1024, constant_bytes};

u32 message_length(u32 number) { return lengths[number % std::size(lengths)]; }
u32 rdma_length(u32 number) { return rdma_lengths[number / 4 % std::size(rdma_lengths)]; }
bool rdma_is_read(u32 number) { return number % 2 == 1; }
bool rdma_is_small(u32 number) { return rdma_length(number) < small_constant && number / 2 % 2 == 1; }
bool atomic_is_add(u32 number) { return number % 2 == 0; }

u8 constant_byte(u32 offset) { return static_cast<u8>(offset * 7 + 3); }
u8 message_byte(u32 number, u32 offset) { return static_cast<u8>(number * 31 + offset); }

u64 address_of(const void* pointer) { return reinterpret_cast<u64>(pointer); }

void to_init(ibv_qp* qp) {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_INIT;
  attributes.port_num = 1;
  attributes.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
  must(ibv_modify_qp(qp, &attributes, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS), "INIT");
}

void to_rtr(ibv_qp* qp, const SideInfo& peer, u32 qpn, bool global) {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_RTR;
  attributes.path_mtu = IBV_MTU_1024;
  attributes.dest_qp_num = qpn;
  attributes.max_dest_rd_atomic = 4;
  attributes.min_rnr_timer = 1;
  attributes.ah_attr.port_num = 1;
  attributes.ah_attr.dlid = static_cast<u16>(peer.lid);
  if (global) {
    attributes.ah_attr.is_global = 1;
    attributes.ah_attr.grh.dgid = peer.gid;
    attributes.ah_attr.grh.hop_limit = 64;
  }
  must(ibv_modify_qp(qp, &attributes,
                     IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                         IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
       "RTR");
}

void to_rts(ibv_qp* qp) {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_RTS;
  attributes.timeout = ack_timeout;
  attributes.retry_cnt = retry_count;
  attributes.rnr_retry = 7;  // for ever: a slow peer is no dead peer
  attributes.max_rd_atomic = 4;
  must(ibv_modify_qp(qp, &attributes,
                     IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                         IBV_QP_MAX_QP_RD_ATOMIC),
       "RTS");
}

}  // namespace

u64 monotonic_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<u64>(now.tv_sec) * 1'000'000'000 + static_cast<u64>(now.tv_nsec);
}

Worker::Worker(Hca& hca, u32 index) : hca_(hca), index_(index), events_(index % 2 == 1) {
  if (events_) channel_ = must(ibv_create_comp_channel(hca.context), "ibv_create_comp_channel");
  cq_ = must(ibv_create_cq(hca.context, kinds * 2 * (depth + receives) + 64, nullptr, channel_, 0), "ibv_create_cq");
  buffers_ = hca.make_region(buffer_bytes, false);
  window_ = hca.make_region(window_bytes, false);
  small_ = hca.make_region(small_bytes, true);
  for (u32 i = 0; i < constant_bytes; ++i) window_.data[i] = constant_byte(i);
  for (u32 i = 0; i < small_constant; ++i) small_.data[i] = constant_byte(i);
  for (Kind kind : {Kind::send, Kind::rdma, Kind::atomic, Kind::srq}) create_qp(kind);
  for (u32 slot = 0; slot < receives; ++slot) post_receive(slot);
}

Worker::~Worker() {
  for (QpRecord& entry : records_) must(ibv_destroy_qp(entry.qp), "ibv_destroy_qp");
  if (unacknowledged_ > 0) ibv_ack_cq_events(cq_, unacknowledged_);
  must(ibv_destroy_cq(cq_), "ibv_destroy_cq");
  if (events_) must(ibv_destroy_comp_channel(channel_), "ibv_destroy_comp_channel");
  Hca::drop_region(buffers_);
  Hca::drop_region(window_);
  Hca::drop_region(small_);
}

void Worker::create_qp(Kind kind) {
  ibv_qp_init_attr attributes{};
  attributes.send_cq = cq_;
  attributes.recv_cq = cq_;
  attributes.qp_type = IBV_QPT_RC;
  attributes.sq_sig_all = 1;
  attributes.cap.max_send_wr = depth;
  attributes.cap.max_send_sge = 1;
  attributes.cap.max_recv_wr = kind == Kind::srq ? 0 : receives;
  attributes.cap.max_recv_sge = 1;
  attributes.srq = kind == Kind::srq ? hca_.srq : nullptr;
  record(kind).qp = must(ibv_create_qp(hca_.pd, &attributes), "ibv_create_qp");
  to_init(record(kind).qp);
}

WorkerInfo Worker::info() const {
  WorkerInfo mine{};
  for (u32 i = 0; i < kinds; ++i) mine.qpn[i] = records_[i].qp->qp_num;
  mine.window_address = address_of(window_.data);
  mine.window_rkey = window_.mr->rkey;
  mine.small_address = address_of(small_.data);
  mine.small_rkey = small_.mr->rkey;
  return mine;
}

void Worker::connect(const SideInfo& peer) {
  peer_ = peer.worker[index_];
  const bool global = hca_.port.link_layer == IBV_LINK_LAYER_ETHERNET;
  for (u32 i = 0; i < kinds; ++i) {
    to_rtr(records_[i].qp, peer, peer_.qpn[i], global);
    to_rts(records_[i].qp);
  }
}

void Worker::post_receive(u32 slot) {
  ibv_sge sge{address_of(buffers_.data + receive_at + size_t{slot} * max_message), max_message, buffers_.mr->lkey};
  ibv_recv_wr request{};
  request.wr_id = receive_mark | slot;
  request.sg_list = &sge;
  request.num_sge = 1;
  ibv_recv_wr* bad = nullptr;
  QpRecord& entry = record(Kind::send);
  must(ibv_post_recv(entry.qp, &request, &bad), "ibv_post_recv");
  ++entry.waiting_receives;
}

void Worker::run() {
  while (!quitting_ && !lost_completely() && fault_.empty()) {
    for (Kind kind : {Kind::send, Kind::rdma, Kind::atomic, Kind::srq}) top_up(kind);
    if (drain_cq() == 0) wait();
    const auto idle = [](const QpRecord& entry) { return entry.posted == entry.done; };
    drained_ = stopping_ && std::all_of(records_.begin(), records_.end(), idle);
  }
  check_written();
  ended_ = true;
}

void Worker::top_up(Kind kind) {
  QpRecord& entry = record(kind);
  while (!stopping_ && entry.first_error == IBV_WC_SUCCESS && entry.posted - entry.done < depth) {
    post(kind);
    ++entry.posted;
  }
}

void Worker::post(Kind kind) {
  const u32 number = record(kind).posted;
  ibv_sge sge{};
  ibv_send_wr request{};
  request.wr_id = number;
  request.sg_list = &sge;
  request.num_sge = 1;
  sge.lkey = buffers_.mr->lkey;
  switch (kind) {
    case Kind::send: fill_send(request, sge, number, 0); break;
    case Kind::srq: fill_send(request, sge, number, srq_send_at); break;
    case Kind::rdma: fill_rdma(request, sge, number); break;
    case Kind::atomic: fill_atomic(request, sge, number); break;
  }
  ibv_send_wr* bad = nullptr;
  must(ibv_post_send(record(kind).qp, &request, &bad), "ibv_post_send");
}

void Worker::fill_send(ibv_send_wr& request, ibv_sge& sge, u32 number, u32 slots_at) const {
  u8* data = buffers_.data + slots_at + size_t{number % depth} * max_message;
  sge.addr = address_of(data);
  sge.length = message_length(number);
  std::memcpy(data, &number, sizeof number);
  for (u32 i = sizeof number; i < sge.length; ++i) data[i] = message_byte(number, i);
  request.opcode = IBV_WR_SEND;
}

void Worker::fill_rdma(ibv_send_wr& request, ibv_sge& sge, u32 number) const {
  const bool small = rdma_is_small(number);
  request.wr.rdma.rkey = small ? peer_.small_rkey : peer_.window_rkey;
  request.wr.rdma.remote_addr = small ? peer_.small_address : peer_.window_address;
  sge.length = rdma_length(number);
  if (rdma_is_read(number)) {
    u8* landing = buffers_.data + landing_at + size_t{number % depth} * constant_bytes;
    std::memset(landing, 0, sge.length);
    sge.addr = address_of(landing);
    request.opcode = IBV_WR_RDMA_READ;
  } else {
    sge.addr = address_of(window_.data);
    sge.lkey = window_.mr->lkey;
    request.wr.rdma.remote_addr += small ? small_written_at : written_at;
    request.opcode = IBV_WR_RDMA_WRITE;
  }
}

void Worker::fill_atomic(ibv_send_wr& request, ibv_sge& sge, u32 number) const {
  sge.addr = address_of(buffers_.data + old_value_at + size_t{number % depth} * 8);
  sge.length = 8;
  request.wr.atomic.rkey = peer_.window_rkey;
  if (atomic_is_add(number)) {
    request.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
    request.wr.atomic.remote_addr = peer_.window_address + added_at;
    request.wr.atomic.compare_add = 1;
  } else {
    request.opcode = IBV_WR_ATOMIC_CMP_AND_SWP;
    request.wr.atomic.remote_addr = peer_.window_address + swapped_at;
    request.wr.atomic.compare_add = number / 2;
    request.wr.atomic.swap = number / 2 + 1;
  }
}

void Worker::wait() {
  if (!events_) {
    timespec pause{0, 20'000};
    nanosleep(&pause, nullptr);
    return;
  }
  must(ibv_req_notify_cq(cq_, 0), "ibv_req_notify_cq");
  if (drain_cq() > 0) return;
  pollfd entry{channel_->fd, POLLIN, 0};
  if (::poll(&entry, 1, 20) <= 0) return;
  ibv_cq* cq = nullptr;
  void* context = nullptr;
  must(ibv_get_cq_event(channel_, &cq, &context), "ibv_get_cq_event");
  ++unacknowledged_;
}

int Worker::drain_cq() {
  ibv_wc completions[16];
  const int count = ibv_poll_cq(cq_, 16, completions);
  if (count < 0) give_up("ibv_poll_cq");
  for (int i = 0; i < count; ++i) handle(completions[i]);
  return count;
}

Kind Worker::kind_of(u32 qpn) const {
  for (u32 i = 0; i < kinds; ++i) {
    if (records_[i].qp->qp_num == qpn) return static_cast<Kind>(i);
  }
  give_up("a completion of an unknown queue pair");
}

void Worker::handle(const ibv_wc& wc) {
  const Kind kind = kind_of(wc.qp_num);
  QpRecord& entry = record(kind);
  const bool is_send = (wc.wr_id & receive_mark) == 0;
  if (is_send && wc.wr_id != entry.done) {
    accuse("completion of request " + std::to_string(wc.wr_id) + ", expected " + std::to_string(entry.done));
  }
  if (is_send) ++entry.done;
  if (wc.status != IBV_WC_SUCCESS) return handle_error(wc, entry, is_send);
  if (entry.first_error != IBV_WC_SUCCESS) accuse("a success after an error");
  ++entry.good;
  if (!is_send) return handle_receive(wc, kind, entry);
  if (kind == Kind::rdma) check_rdma(static_cast<u32>(wc.wr_id));
  if (kind == Kind::atomic) check_atomic(static_cast<u32>(wc.wr_id));
}

void Worker::handle_error(const ibv_wc& wc, QpRecord& entry, bool is_send) {
  const bool first = is_send && entry.first_error == IBV_WC_SUCCESS;
  const ibv_wc_status expected = first ? IBV_WC_RETRY_EXC_ERR : IBV_WC_WR_FLUSH_ERR;
  if (wc.status != expected) {
    accuse(std::string(ibv_wc_status_str(wc.status)) + " (vendor " + std::to_string(wc.vendor_err) + "), expected " +
           ibv_wc_status_str(expected));
  }
  if (first) {
    entry.first_error = wc.status;
    entry.first_error_ns = monotonic_ns();
  } else {
    ++entry.flushed;
  }
  if (is_send) return;
  if (entry.qp->srq == nullptr) {
    --entry.waiting_receives;
  } else {
    // A receive of the SRQ that the peer had begun to fill belongs to this queue pair and is flushed with it.
    hca_.post_srq(static_cast<u32>(wc.wr_id));
  }
}

void Worker::handle_receive(const ibv_wc& wc, Kind kind, QpRecord& entry) {
  const u32 slot = static_cast<u32>(wc.wr_id);
  if (kind == Kind::srq) {
    check_message(hca_.srq_buffer(slot), wc.byte_len, entry);
    hca_.post_srq(slot);
    return;
  }
  --entry.waiting_receives;
  check_message(buffers_.data + receive_at + size_t{slot} * max_message, wc.byte_len, entry);
  post_receive(slot);
}

void Worker::check_message(const u8* data, u32 length, QpRecord& entry) {
  const u32 number = entry.expected_message++;
  u32 sent = 0;
  std::memcpy(&sent, data, sizeof sent);
  if (sent != number || length != message_length(number)) {
    return accuse("message " + std::to_string(sent) + " of " + std::to_string(length) + " bytes, expected " +
                  std::to_string(number) + " of " + std::to_string(message_length(number)));
  }
  for (u32 i = sizeof sent; i < length; ++i) {
    if (data[i] != message_byte(number, i)) return accuse("message damaged at byte " + std::to_string(i));
  }
}

void Worker::check_rdma(u32 number) {
  if (!rdma_is_read(number)) return;
  const u8* landing = buffers_.data + landing_at + size_t{number % depth} * constant_bytes;
  for (u32 i = 0; i < rdma_length(number); ++i) {
    if (landing[i] != constant_byte(i)) return accuse("read damaged at byte " + std::to_string(i));
  }
}

void Worker::check_atomic(u32 number) {
  u64 old = 0;
  std::memcpy(&old, buffers_.data + old_value_at + size_t{number % depth} * 8, sizeof old);
  if (old != number / 2) {
    accuse("atomic gave " + std::to_string(old) + ", expected " + std::to_string(number / 2));
  }
}

// What the peer wrote is its pattern or, where it never came to write, still zero.
void Worker::check_written() {
  for (u32 i = 0; i < constant_bytes; ++i) {
    const u8 byte = window_.data[written_at + i];
    if (byte != 0 && byte != constant_byte(i)) return accuse("written bytes damaged at " + std::to_string(i));
  }
}

void Worker::accuse(const std::string& what) {
  if (fault_.empty()) fault_ = "worker " + std::to_string(index_) + ": " + what;
}

bool Worker::lost_completely() const {
  return std::all_of(records_.begin(), records_.end(), [](const QpRecord& entry) {
    return entry.first_error != IBV_WC_SUCCESS && entry.posted == entry.done && entry.waiting_receives == 0;
  });
}

}  // namespace softib::kill
