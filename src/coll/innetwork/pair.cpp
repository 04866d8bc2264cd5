#include "coll/innetwork/pair.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>

#include "base/error_text.h"

namespace softib::coll::innetwork {

namespace {

tl::unexpected<Error> trouble(std::string_view what) {
  return refuse(Code::system_error, fmt::format("{}: {}", what, error_text()));
}

}  // namespace

void Unmap::operator()(std::byte* at) const { ::munmap(at, bytes); }

Outcome<Region> Region::make(ibv_pd* domain, std::size_t bytes) {
  void* at = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) return trouble(fmt::format("{} KiB of memory", bytes >> 10));
  Region region;
  region.memory_ = {static_cast<std::byte*>(at), Unmap{bytes}};
  region.key_.reset(::ibv_reg_mr(domain, at, bytes, IBV_ACCESS_LOCAL_WRITE));
  if (!region.key_) return trouble(fmt::format("registering {} KiB of memory", bytes >> 10));
  return region;
}

Outcome<Completions> Completions::make(ibv_context* context, u32 entries) {
  Completions made;
  made.channel.reset(::ibv_create_comp_channel(context));
  if (!made.channel) return trouble("completion channel");
  made.queue.reset(::ibv_create_cq(context, static_cast<int>(entries), nullptr, made.channel.get(), 0));
  if (!made.queue) return trouble(fmt::format("completion queue of {}", entries));
  const int flags = ::fcntl(made.channel->fd, F_GETFL);
  if (flags < 0 || ::fcntl(made.channel->fd, F_SETFL, flags | O_NONBLOCK) < 0) return trouble("completion channel");
  return made;
}

bool Completions::arm() {
  take_events();
  return ::ibv_req_notify_cq(queue.get(), 0) == 0;
}

void Completions::take_events() {
  ibv_cq* told = nullptr;
  void* context = nullptr;
  u32 events = 0;
  while (::ibv_get_cq_event(channel.get(), &told, &context) == 0) ++events;
  if (events != 0) ::ibv_ack_cq_events(queue.get(), events);
}

Outcome<Pair> Pair::make(const OpenPort& port, ibv_cq* completions, u32 sends, u32 receives,
                         const PairSettings& settings) {
  ibv_qp_init_attr wanted{};
  wanted.send_cq = completions;
  wanted.recv_cq = completions;
  wanted.qp_type = IBV_QPT_RC;
  wanted.cap.max_send_wr = sends;
  wanted.cap.max_recv_wr = receives;
  wanted.cap.max_send_sge = 1;
  wanted.cap.max_recv_sge = 1;
  wanted.sq_sig_all = 1;
  Pair made;
  made.pair_.reset(::ibv_create_qp(port.domain, &wanted));
  if (!made.pair_) return trouble(fmt::format("{}: queue pair", port.device));
  made.settings_ = settings;
  made.port_ = port.number;
  // 24 bits, other ones each time.
  made.end_ = {port.lid, port.mtu, made.pair_->qp_num, (made.pair_->qp_num * 0x9e37'79b1U) >> 8};
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_INIT;
  attributes.pkey_index = settings.pkey_index;
  attributes.port_num = port.number;
  attributes.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;  // for probe(), which writes nothing
  errno = ::ibv_modify_qp(made.pair_.get(), &attributes,
                          IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
  if (errno != 0) return trouble(fmt::format("{}: queue pair to INIT", port.device));
  return made;
}

Outcome<void> Pair::connect(const End& there) {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_RTR;
  attributes.path_mtu = static_cast<ibv_mtu>(std::clamp<u8>(std::min(end_.mtu, there.mtu), IBV_MTU_256, IBV_MTU_4096));
  attributes.dest_qp_num = there.pair;
  attributes.rq_psn = there.first & 0xff'ffff;
  attributes.max_dest_rd_atomic = 1;
  attributes.min_rnr_timer = 12;
  attributes.ah_attr.dlid = there.lid;
  attributes.ah_attr.sl = settings_.sl;
  attributes.ah_attr.port_num = port_;
  errno = ::ibv_modify_qp(pair_.get(), &attributes,
                          IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                              IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
  if (errno != 0) return trouble("queue pair to RTR");
  attributes.qp_state = IBV_QPS_RTS;
  attributes.timeout = settings_.timeout;
  attributes.retry_cnt = settings_.retries;
  attributes.rnr_retry = 7;  // without end
  attributes.sq_psn = end_.first;
  attributes.max_rd_atomic = 1;
  errno = ::ibv_modify_qp(
      pair_.get(), &attributes,
      IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
  if (errno != 0) return trouble("queue pair to RTS");
  return {};
}

bool Pair::receive(u64 name, std::span<std::byte> memory, u32 key) const {
  ibv_sge piece{reinterpret_cast<u64>(memory.data()), static_cast<u32>(memory.size()), key};
  ibv_recv_wr request{};
  request.wr_id = name;
  request.sg_list = &piece;
  request.num_sge = 1;
  ibv_recv_wr* bad = nullptr;
  return pair_ && ::ibv_post_recv(pair_.get(), &request, &bad) == 0;
}

bool Pair::send(u64 name, std::span<const std::byte> memory, u32 key) const {
  ibv_sge piece{reinterpret_cast<u64>(memory.data()), static_cast<u32>(memory.size()), key};
  ibv_send_wr request{};
  request.wr_id = name;
  request.sg_list = &piece;
  request.num_sge = 1;
  request.opcode = IBV_WR_SEND;
  ibv_send_wr* bad = nullptr;
  return pair_ && ::ibv_post_send(pair_.get(), &request, &bad) == 0;
}

bool Pair::probe(u64 name) const {
  ibv_send_wr request{};
  request.wr_id = name;
  request.opcode = IBV_WR_RDMA_WRITE;
  ibv_send_wr* bad = nullptr;
  return pair_ && ::ibv_post_send(pair_.get(), &request, &bad) == 0;
}

}  // namespace softib::coll::innetwork
