#include "coll/innetwork/post.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <random>

#include "base/error_text.h"

namespace softib::coll::innetwork {

namespace {

constexpr u32 receives = 128;
constexpr u32 sends = 32;
constexpr u32 global_header = 40;  // room for one stands in front of each datagram
constexpr std::size_t most_handles = 4096;

u32 bytes_of_mtu(u8 code) { return 128U << code; }

}  // namespace

Outcome<std::unique_ptr<Post>> Post::open(const OpenPort& port, const PairSettings& settings, MailboxLimits limits) {
  limits.datagram_bytes = std::min(limits.datagram_bytes, bytes_of_mtu(port.mtu));
  std::random_device random;
  std::unique_ptr<Post> post(new Post(port, u64{random()} << 32 | random(), limits));
  post->sl_ = settings.sl;
  post->slot_bytes_ = global_header + std::max(2048U, limits.datagram_bytes);
  auto region = Region::make(port.domain, std::size_t{receives + sends} * post->slot_bytes_);
  if (!region) return tl::unexpected(region.error());
  post->region_ = std::move(*region);
  auto completions = Completions::make(port.context, receives + sends);
  if (!completions) return tl::unexpected(completions.error());
  post->completions_ = std::move(*completions);
  if (auto made = post->make_pair(settings); !made) return tl::unexpected(made.error());
  for (u32 number = 0; number < receives; ++number)
    if (!post->post_receive(number)) return refuse(Code::system_error, "datagrams can't be received");
  for (u32 number = 0; number < sends; ++number) post->free_sends_.push_back(number);
  return post;
}

Outcome<void> Post::make_pair(const PairSettings& settings) {
  ibv_qp_init_attr wanted{};
  wanted.send_cq = completions_.queue.get();
  wanted.recv_cq = completions_.queue.get();
  wanted.qp_type = IBV_QPT_UD;
  wanted.cap = {
      .max_send_wr = sends, .max_recv_wr = receives, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = 0};
  wanted.sq_sig_all = 1;
  pair_.reset(::ibv_create_qp(port_.domain, &wanted));
  if (!pair_) return refuse(Code::system_error, fmt::format("{}: UD queue pair: {}", port_.device, error_text()));
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_INIT;
  attributes.pkey_index = settings.pkey_index;
  attributes.port_num = port_.number;
  attributes.qkey = management_qkey;
  errno = ::ibv_modify_qp(pair_.get(), &attributes, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY);
  attributes.qp_state = IBV_QPS_RTR;
  if (errno == 0) errno = ::ibv_modify_qp(pair_.get(), &attributes, IBV_QP_STATE);
  attributes.qp_state = IBV_QPS_RTS;
  attributes.sq_psn = 0;
  if (errno == 0) errno = ::ibv_modify_qp(pair_.get(), &attributes, IBV_QP_STATE | IBV_QP_SQ_PSN);
  if (errno != 0) return refuse(Code::system_error, fmt::format("{}: UD queue pair: {}", port_.device, error_text()));
  return {};
}

bool Post::post_receive(u32 number) {
  const std::span<std::byte> memory = slot(number);
  ibv_sge piece{reinterpret_cast<u64>(memory.data()), slot_bytes_, region_.key()};
  ibv_recv_wr request{};
  request.wr_id = number;
  request.sg_list = &piece;
  request.num_sge = 1;
  ibv_recv_wr* bad = nullptr;
  return ::ibv_post_recv(pair_.get(), &request, &bad) == 0;
}

bool Post::take_completions(Mailbox::Time now) {
  std::array<ibv_wc, 32> done{};
  const int count = ::ibv_poll_cq(completions_.queue.get(), static_cast<int>(done.size()), done.data());
  for (int i = 0; i < count; ++i) {
    const ibv_wc& one = done[static_cast<std::size_t>(i)];
    const auto number = static_cast<u32>(one.wr_id);
    if (number >= receives) {
      free_sends_.push_back(number - receives);
      continue;
    }
    if (one.status == IBV_WC_SUCCESS && one.byte_len >= global_header)
      mailbox_.receive({one.slid, one.src_qp}, slot(number).subspan(global_header, one.byte_len - global_header), now);
    static_cast<void>(post_receive(number));
  }
  return count > 0;
}

ibv_ah* Post::handle_for(u16 lid) {
  if (const auto known = handles_.find(lid); known != handles_.end()) return known->second.get();
  if (handles_.size() >= most_handles) handles_.clear();
  ibv_ah_attr attributes{};
  attributes.dlid = lid;
  attributes.sl = sl_;
  attributes.port_num = port_.number;
  return handles_.emplace(lid, ::ibv_create_ah(port_.domain, &attributes)).first->second.get();
}

// What can't be sent is as lost as what a network loses.
bool Post::send_waiting() {
  bool any = false;
  while (!free_sends_.empty()) {
    const auto datagram = mailbox_.next_datagram();
    if (!datagram) break;
    any = true;
    ibv_ah* handle = handle_for(datagram->peer.lid);
    if (handle == nullptr) continue;
    const u32 number = free_sends_.back();
    const std::span<std::byte> memory = slot(receives + number);
    std::memcpy(memory.data(), datagram->bytes.data(), datagram->bytes.size());
    ibv_sge piece{reinterpret_cast<u64>(memory.data()), static_cast<u32>(datagram->bytes.size()), region_.key()};
    ibv_send_wr request{};
    request.wr_id = receives + number;
    request.sg_list = &piece;
    request.num_sge = 1;
    request.opcode = IBV_WR_SEND;
    request.wr.ud = {handle, datagram->peer.pair, management_qkey};
    ibv_send_wr* bad = nullptr;
    if (::ibv_post_send(pair_.get(), &request, &bad) == 0) free_sends_.pop_back();
  }
  return any;
}

bool Post::turn(Mailbox::Time now) {
  bool any = take_completions(now);
  mailbox_.on_time(now);
  any |= send_waiting();
  return any;
}

}  // namespace softib::coll::innetwork
