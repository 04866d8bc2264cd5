// Words of control. A rank sends no more of them than its peer has receives posted, so none is ever refused for want of
// one. The last credit is for handing credits back alone: without it both could hold what the other one waits for.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "coll/transport/verbs/engine.h"

namespace softib::coll::verbs {

namespace {

constexpr u32 sends_for_a_completion = 8;

std::string differing(const char* there, u64 bytes_there, const std::string& self, const char* here, u64 bytes_here) {
  return fmt::format("{} {} bytes where {} {} {}", there, bytes_there, self, here, bytes_here);
}

}  // namespace

bool Engine::may_post(const Peer& peer, u32 credits) const {
  return peer.standing == Standing::connected && peer.credits >= credits &&
         peer.control_in_flight < parts_->depths.control_sends && parts_->send_slots.free() > 0;
}

void Engine::post_control(Peer& peer, Header header, const void* payload, u32 bytes) {
  header.credits = static_cast<u16>(peer.owed);
  header.matched = peer.matched;
  WorkName name{.job = Job::control_send, .peer = static_cast<u16>(peer.index)};
  std::array<ibv_sge, 2> parts{};
  ibv_send_wr request{};
  request.sg_list = parts.data();
  request.opcode = IBV_WR_SEND;
  peer.control_in_flight++;
  peer.unsignalled++;
  if (sizeof header + bytes <= peer.inline_bytes) {
    parts[0] = {reinterpret_cast<u64>(&header), sizeof header, 0};
    parts[1] = {reinterpret_cast<u64>(payload), bytes, 0};
    request.num_sge = bytes > 0 ? 2 : 1;
    request.send_flags = IBV_SEND_INLINE;
  } else {
    const u16 slot = *parts_->send_slots.take();
    std::byte* at = parts_->send_slots.at(slot);
    std::memcpy(at, &header, sizeof header);
    if (bytes > 0) std::memcpy(at + sizeof header, payload, bytes);
    parts[0] = {reinterpret_cast<u64>(at), static_cast<u32>(sizeof header) + bytes,
                parts_->send_slots.local_key(peer.control_device)};
    request.num_sge = 1;
    name.slot = static_cast<u16>(slot + 1);
    peer.held_slots.push_back(slot);
  }
  // A completion tells of all that were posted before it.
  if (name.slot != 0 || peer.unsignalled >= sends_for_a_completion || header.word == Word::bye ||
      header.word == Word::mismatch) {
    request.send_flags |= IBV_SEND_SIGNALED;
    name.item = static_cast<u16>(peer.unsignalled);
    peer.unsignalled = 0;
  }
  request.wr_id = name.pack();
  ibv_send_wr* bad = nullptr;
  if (const int error = ibv_post_send(peer.control.get(), &request, &bad); error != 0)
    return fail(peer, Code::system_error, fmt::format("queue pair {}: post: {}", peer.where, std::strerror(error)));
  peer.credits--;
  peer.owed = 0;
  if (header.word == Word::fetched) on_told_fetched(peer, header.token);
}

void Engine::on_control_sent(Peer& peer, const WorkName& name) {
  peer.control_in_flight -= name.item;
  if (name.slot == 0) return;
  const auto slot = static_cast<u16>(name.slot - 1);
  std::erase(peer.held_slots, slot);
  parts_->send_slots.give_back(slot);
}

void Engine::post_receive(Peer& peer, u32 slot) {
  ibv_sge part{reinterpret_cast<u64>(parts_->receive_slots.at(slot)), parts_->receive_slots.slot_bytes(),
               parts_->receive_slots.local_key(peer.control_device)};
  ibv_recv_wr request{};
  request.wr_id = WorkName{.job = Job::control_receive,
                           .peer = static_cast<u16>(peer.index),
                           .item = static_cast<u16>(slot - peer.first_slot)}
                      .pack();
  request.sg_list = &part;
  request.num_sge = 1;
  ibv_recv_wr* bad = nullptr;
  if (const int error = ibv_post_recv(peer.control.get(), &request, &bad); error != 0)
    fail(peer, Code::system_error, fmt::format("queue pair {}: post: {}", peer.where, std::strerror(error)));
}

void Engine::tell(Peer& peer, const Header& header, const GrantBody& body) {
  if (peer.standing != Standing::connected) return;
  if (peer.notes.empty() && may_post(peer, 2))
    return post_control(peer, header, &body, has_body(header.word) ? sizeof body : 0);
  peer.notes.push_back({header, body});
  make_busy(peer);
}

bool Engine::post_notes(Peer& peer) {
  bool moved = false;
  while (!peer.notes.empty() && may_post(peer, 2)) {
    const Peer::Note note = peer.notes.front();
    peer.notes.pop_front();
    post_control(peer, note.header, &note.body, has_body(note.header.word) ? sizeof note.body : 0);
    moved = true;
  }
  if (peer.owed >= parts_->depths.control_receives / 2 && may_post(peer, 1)) {
    post_control(peer, {.word = Word::credit}, nullptr, 0);
    moved = true;
  }
  return moved;
}

void Engine::on_message(Peer& peer, u32 slot) {
  const std::byte* at = parts_->receive_slots.at(peer.first_slot + slot);
  Header header;
  std::memcpy(&header, at, sizeof header);
  peer.credits += header.credits;
  peer.sent_matched = header.matched;
  take_word(peer, header, at + sizeof header);
  if (peer.standing == Standing::closed) return;
  post_receive(peer, peer.first_slot + slot);
  peer.owed++;
  if (peer.owed >= parts_->depths.control_receives / 2) make_busy(peer);
}

void Engine::take_word(Peer& peer, const Header& header, const std::byte* payload) {
  switch (header.word) {
    case Word::data:
      return take_data(peer, header, payload);
    case Word::announce:
      return take_announcement(peer, header);
    case Word::grant:
      return take_grant(peer, header, payload);
    case Word::piece:
      return take_piece(peer, header, payload);
    case Word::consumed:
      return take_consumed(peer, header);
    case Word::credit:
      return;
    case Word::mismatch:
      return take_mismatch(peer, header);
    case Word::waits:
      return take_waits(peer, header);
    case Word::offer:
      return take_offer(peer, header, payload);
    case Word::fetched:
      return take_fetched(peer, header);
    case Word::bye:
      peer.standing = Standing::left;
      departed_++;
      return;
  }
}

Transfer* Engine::transfer_of(const Peer& peer, u32 token) {
  const auto found = std::find_if(peer.transfers.begin(), peer.transfers.end(),
                                  [token](const Transfer* it) { return it->grant.token == token; });
  return found == peer.transfers.end() ? nullptr : *found;
}

void Engine::take_consumed(Peer& peer, const Header& header) {
  Transfer* transfer = transfer_of(peer, header.token);
  if (transfer == nullptr) return;
  transfer->consumed = header.bytes;
  advance(*transfer);
}

void Engine::take_mismatch(Peer& peer, const Header& header) {
  const bool sent_there = header.token != 0;
  fail(peer, Code::invalid_usage,
       sent_there ? differing("sends", header.bytes, parts_->self, "expects", header.count)
                  : differing("expects", header.count, parts_->self, "sends", header.bytes));
}

// `sender`: this rank is the one who sends. The peer shall hear of it before the queue pair goes, so the end comes once
// these words are through.
void Engine::complain_of_length(Peer& peer, bool sender, u64 sent, u64 expected) {
  if (peer.doom) return;
  tell(peer, {.word = Word::mismatch, .bytes = sent, .token = sender ? 1U : 0U, .count = static_cast<u32>(expected)});
  peer.doom = Error{Code::invalid_usage, sender ? differing("expects", expected, parts_->self, "sends", sent)
                                                : differing("sends", sent, parts_->self, "expects", expected)};
  make_busy(peer);
}

}  // namespace softib::coll::verbs
