// Long messages out. A grant says where to; pieces go to the rails in turn, each a write of its own. With a window
// every piece tells the receiver that it is there, by its immediate; else only the last one on each rail does.
#include <fmt/format.h>

#include <arpa/inet.h>

#include <algorithm>
#include <cstring>

#include "coll/transport/verbs/engine.h"

namespace softib::coll::verbs {

namespace {

// What a single write carries at most: an HCA in software moves it within the call, and other streams wait.
constexpr u64 write_at_most = u64{1} << 20;
// Messages shorter than that for each rail aren't worth another rail's round.
constexpr u64 rail_at_least = u64{32} << 10;
constexpr u64 bytes_in_a_round = u64{1} << 20;
constexpr u64 page = 4096;
// Two copies of what stays in a near cache take less time than the HCA's look at each page.
constexpr u64 copied_to_window = u64{64} << 10;

u64 round_up(u64 value, u64 unit) { return (value + unit - 1) / unit * unit; }

}  // namespace

void Engine::take_grant(Peer& peer, const Header& header, const std::byte* payload) {
  Grant grant;
  grant.stream = header.stream;
  grant.way = header.way;
  grant.bytes = header.bytes;
  grant.token = header.token;
  std::memcpy(&grant.body, payload, sizeof grant.body);
  Send* send = nullptr;
  if (grant.body.answers != 0) {
    send = peer.announced.take([&](const Send& it) { return it.token + 1 == grant.body.answers; });
  } else {
    send = peer.sends.take(grant.stream);
  }
  if (send != nullptr) return begin_transfer(peer, *send, grant);
  peer.grants.push(*new Grant(grant));
}

void Engine::begin_transfer(Peer& peer, Send& send, const Grant& grant) {
  if (grant.bytes != send.bytes) {
    send.state = State::failed;
    return complain_of_length(peer, true, send.bytes, grant.bytes);
  }
  Transfer& transfer = transfers_.add();
  transfer.peer = &peer;
  transfer.send = &send;
  transfer.grant = grant;
  if (grant.way != Way::pieces) {
    const bool on_demand = grant.way == Way::direct || send.bytes > copied_to_window;
    transfer.registration = parts_->registrar->acquire(send.memory, send.bytes, Access::read, on_demand);
  }
  peer.transfers.push_back(&transfer);
  if (grant.way == Way::fetch && make_offer(transfer)) return;
  cut(transfer);
  make_busy(peer);
  advance(transfer);
}

// False: what the receiver would rather read can't be given to it, so it is written to the window.
bool Engine::make_offer(Transfer& transfer) {
  if (transfer.registration == nullptr) {
    transfer.grant.way = Way::window;
    return false;
  }
  const Peer& peer = *transfer.peer;
  GrantBody body;
  body.address = reinterpret_cast<u64>(transfer.send->memory);
  for (std::size_t i = 0; i < peer.rails.size(); i++)
    body.keys[i] = transfer.registration->remote_key(peer.rails[i].device);
  tell(*transfer.peer, {.word = Word::offer, .token = transfer.grant.token}, body);
  return true;
}

void Engine::take_fetched(Peer& peer, const Header& header) {
  Transfer* transfer = transfer_of(peer, header.token);
  if (transfer != nullptr && transfer->grant.way == Way::fetch) end_transfer(*transfer, State::done);
}

void Engine::cut(Transfer& transfer) {
  const u64 bytes = transfer.send->bytes;
  const u64 rails = transfer.peer->rails.size();
  switch (transfer.grant.way) {
    case Way::direct:
      // Equal shares of all rails in long messages; whole pages, so that no two rails write into one.
      transfer.piece_bytes = std::clamp(round_up((bytes + rails - 1) / rails, page), rail_at_least, write_at_most);
      if (transfer.registration == nullptr)
        transfer.piece_bytes = std::min<u64>(transfer.piece_bytes, parts_->pool.slot_bytes());
      break;
    case Way::window:
    case Way::fetch:
      transfer.piece_bytes = transfer.grant.body.piece_bytes;
      break;
    case Way::pieces:
      transfer.piece_bytes = transfer.peer->small_bytes / 64 * 64;
      break;
  }
  transfer.pieces = std::max<u64>((bytes + transfer.piece_bytes - 1) / transfer.piece_bytes, 1);
}

bool Engine::advance(Transfer& transfer) {
  if (transfer.grant.way == Way::pieces) return advance_pieces(transfer);
  if (transfer.grant.way == Way::fetch) return false;
  bool moved = false;
  u64 posted = 0;
  while (transfer.posted < transfer.pieces && posted < bytes_in_a_round) {
    if (transfer.grant.way == Way::window && transfer.posted >= transfer.consumed + transfer.grant.body.window) break;
    Peer& peer = *transfer.peer;
    if (!post_write(transfer, transfer.posted)) break;
    if (peer.standing != Standing::connected) return true;  // and the transfer is gone
    transfer.posted++;
    posted += transfer.piece_bytes;
    moved = true;
  }
  return moved;
}

bool Engine::advance_pieces(Transfer& transfer) {
  Peer& peer = *transfer.peer;
  bool moved = false;
  while (transfer.posted < transfer.pieces && may_post(peer, 2)) {
    const u64 offset = transfer.posted * transfer.piece_bytes;
    const u64 bytes = std::min(transfer.piece_bytes, transfer.send->bytes - offset);
    post_control(peer, {.word = Word::piece, .bytes = bytes, .token = transfer.grant.token},
                 static_cast<const std::byte*>(transfer.send->memory) + offset, static_cast<u32>(bytes));
    if (peer.standing != Standing::connected) return true;
    transfer.posted++;
    moved = true;
  }
  if (transfer.posted == transfer.pieces) end_transfer(transfer, State::done);
  return moved;
}

bool Engine::post_write(Transfer& transfer, u64 piece) {
  Peer& peer = *transfer.peer;
  const u64 rails = peer.rails.size();
  const u64 used = std::min(rails, transfer.pieces);
  const auto place = static_cast<u32>(piece % rails);
  Rail& rail = peer.rails[place];
  if (rail.writes >= parts_->depths.data_writes) return false;
  const u64 offset = piece * transfer.piece_bytes;
  const u64 bytes = std::min(transfer.piece_bytes, transfer.send->bytes - offset);
  const std::byte* from = static_cast<const std::byte*>(transfer.send->memory) + offset;
  WorkName name{.job = Job::write,
                .rail = static_cast<u8>(place),
                .peer = static_cast<u16>(peer.index),
                .item = static_cast<u16>(transfer.id)};
  ibv_sge part{reinterpret_cast<u64>(from), static_cast<u32>(bytes), 0};
  if (transfer.registration != nullptr) {
    part.lkey = transfer.registration->local_key(rail.device);
  } else {
    const auto slot = parts_->pool.take();
    if (!slot) return false;
    std::memcpy(parts_->pool.at(*slot), from, bytes);
    part.addr = reinterpret_cast<u64>(parts_->pool.at(*slot));
    part.lkey = parts_->pool.local_key(rail.device);
    name.slot = static_cast<u16>(*slot + 1);
    transfer.staged.push_back(*slot);
  }
  const GrantBody& body = transfer.grant.body;
  ibv_send_wr request{};
  request.wr_id = name.pack();
  request.sg_list = &part;
  request.num_sge = 1;
  request.send_flags = IBV_SEND_SIGNALED;
  request.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
  if (transfer.grant.way == Way::window) {
    request.wr.rdma.remote_addr = peer.pool_address + u64{body.slots[piece % body.window]} * peer.pool_slot_bytes;
    request.wr.rdma.rkey = rail.pool_key;
    request.imm_data = htonl(immediate(transfer.grant.token, piece));
  } else {
    request.wr.rdma.remote_addr = body.address + offset;
    request.wr.rdma.rkey = body.keys[place];
    if (piece + used < transfer.pieces) request.opcode = IBV_WR_RDMA_WRITE;
    request.imm_data = htonl(immediate(transfer.grant.token, used));
  }
  rail.writes++;
  post(peer, rail, request);
  return true;
}

void Engine::post(Peer& peer, const Rail& rail, ibv_send_wr& request) {
  ibv_send_wr* bad = nullptr;
  if (const int error = ibv_post_send(rail.pair.get(), &request, &bad); error != 0)
    fail(peer, Code::system_error, fmt::format("queue pair {}: post: {}", rail.where, std::strerror(error)));
}

void Engine::on_written(Peer& peer, const WorkName& name) {
  peer.rails[name.rail].writes--;
  Transfer* transfer = transfers_.find(name.item);
  if (transfer == nullptr || transfer->peer != &peer) return;
  if (name.slot != 0) {
    const auto slot = static_cast<u16>(name.slot - 1);
    std::erase(transfer->staged, slot);
    parts_->pool.give_back(slot);
  }
  transfer->completed++;
  if (transfer->completed == transfer->pieces) end_transfer(*transfer, State::done);
}

void Engine::end_transfer(Transfer& transfer, State state) {
  std::erase(transfer.peer->transfers, &transfer);
  for (const u16 slot : transfer.staged) parts_->pool.give_back(slot);
  parts_->registrar->release(transfer.registration);
  transfer.send->state = state;
  transfers_.remove(transfer);
}

}  // namespace softib::coll::verbs
