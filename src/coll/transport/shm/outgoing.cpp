#include "coll/transport/shm/outgoing.h"

#include <algorithm>
#include <cstring>

#include "coll/kernels/kernels.h"

namespace softib::coll::shm {

void Outgoing::send_otherwise(Send& send) {
  if (queue_.empty() && controls_.empty() && put(send)) {
    if (send.state == State::waiting) ++waiting_;
    return;
  }
  queue_.push(send);
  ++waiting_;
  held_ = true;
}

void Outgoing::say(const Control& control) {
  if (controls_.empty() && has_line()) return put_control(control);
  controls_.push_back(control);
  held_ = true;
}

void Outgoing::put_control(const Control& control) {
  Line& line = next_line();
  line.name = control.token;
  std::memcpy(line.payload.data(), &control.place, sizeof control.place);
  publish(line, control.kind, 0);
  if (control.kind == LineKind::written) end(*slot_of(control.token));
  if (control.ends) control.ends->state = State::done;
}

// Sees what the peer has taken out meanwhile. False if its numbers can't be.
bool Outgoing::look() {
  const u64 lines = channel_.taken.lines.load(std::memory_order_acquire);
  const u64 data = channel_.taken.data.load(std::memory_order_acquire);
  const u64 matched = channel_.taken.matched.load(std::memory_order_acquire);
  if (lines_ - lines > line_count || data_ - data > data_bytes || matched > cost_) {
    health_.spoil(Code::remote_error, "wrote impossible numbers into shared memory");
    return false;
  }
  lines_end_ = lines + line_count;
  data_end_ = data + data_bytes;
  cost_end_ = matched + early_most;
  return true;
}

bool Outgoing::affordable(u64 bytes) {
  const u64 after = cost_ + cost_of(bytes);
  return after <= cost_end_ || (look() && after <= cost_end_);
}

bool Outgoing::put(Send& send) {
  if (!has_line()) return false;
  if (send.bytes <= inline_most && affordable(send.bytes)) {
    put_inline(send);
    return true;
  }
  const bool stays = (send.lend && send.bytes >= lend_least) || (send.push && send.bytes >= push_least);
  const auto place = stays || send.bytes > eager_most ? arena_.place_of(send.memory, send.bytes) : std::nullopt;
  if (send.bytes <= eager_most && !place && affordable(send.bytes)) return put_data(send);
  announce(send, place.value_or(Announcement::nowhere));
  return true;
}

bool Outgoing::put_data(Send& send) {
  const u64 place = data_place(data_, send.bytes);
  const u64 end = place + whole_lines(send.bytes);
  if (end > data_end_ && (!look() || end > data_end_)) return false;
  const auto stores = send.bytes >= streamed_least ? kernels::Stores::streaming : kernels::Stores::cached;
  kernels::copy(channel_.data.data() + place % data_bytes, send.memory, send.bytes, stores);
  data_ = end;
  cost_ += cost_of(send.bytes);
  Line& line = next_line();
  line.name = send.stream;
  publish(line, LineKind::message, send.bytes);
  send.state = State::done;
  return true;
}

void Outgoing::announce(Send& send, u64 place) {
  if (free_slots_.empty()) {
    free_slots_.push_back(static_cast<u32>(slots_.size()));
    slots_.emplace_back();
  }
  const u32 index = free_slots_.back();
  free_slots_.pop_back();
  Slot& slot = slots_[index];
  slot.send = &send;
  slot.requested = false;
  send.token = u64{++slot.use} << 32 | index;
  send.progress = 0;
  const Announcement announcement{send.bytes, send.token, reinterpret_cast<u64>(send.memory), place,
                                  send.push ? 1U : 0U};
  Line& line = next_line();
  line.name = send.stream;
  std::memcpy(line.payload.data(), &announcement, sizeof announcement);
  publish(line, LineKind::announcement, 0);
}

Outgoing::Slot* Outgoing::slot_of(u64 token) {
  const u64 index = token & 0xffffffff;
  if (index >= slots_.size()) return nullptr;
  Slot& slot = slots_[index];
  return slot.send && slot.use == token >> 32 ? &slot : nullptr;
}

void Outgoing::end(Slot& slot) {
  slot.send->state = State::done;
  slot.send = nullptr;
  free_slots_.push_back(static_cast<u32>(&slot - slots_.data()));
  --waiting_;
}

bool Outgoing::finished(u64 token) {
  Slot* slot = slot_of(token);
  if (!slot || slot->requested) return false;
  end(*slot);
  return true;
}

bool Outgoing::requested(u64 token) {
  Slot* slot = slot_of(token);
  if (!slot || slot->requested) return false;
  slot->requested = true;
  pushing_.push(*slot->send);
  held_ = true;
  return true;
}

bool Outgoing::placed(u64 token, u64 place) {
  Slot* slot = slot_of(token);
  if (!slot || slot->requested) return false;
  std::byte* to = peer_.arena.at(place, slot->send->bytes);
  if (!to) return false;
  slot->requested = true;
  writes_.push_back({slot->send, to});
  held_ = true;
  return true;
}

bool Outgoing::progress() {
  bool moved = false;
  for (; !controls_.empty() && has_line(); controls_.pop_front()) {
    put_control(controls_.front());
    moved = true;
  }
  while (controls_.empty() && !queue_.empty()) {
    auto& send = static_cast<Send&>(*queue_.front());
    if (!put(send)) break;
    queue_.pop();
    if (send.state == State::done) --waiting_;
    moved = true;
  }
  moved |= push_chunks();
  moved |= write_some();
  note_held();
  return moved;
}

// Not all at once, though the peer takes them out meanwhile: chunks that come must be taken out by turns, or only one
// direction would move.
bool Outgoing::push_chunks() {
  bool moved = false;
  for (u64 turn = 0; turn < chunks_at_once && !pushing_.empty(); ++turn) {
    const u64 taken = channel_.taken.chunks.load(std::memory_order_acquire);
    if (chunks_ - taken > chunk_count) health_.spoil(Code::remote_error, "took chunks that it wasn't given");
    if (chunks_ - taken >= chunk_count) break;
    auto& send = static_cast<Send&>(*pushing_.front());
    const u64 bytes = std::min(chunk_bytes, send.bytes - send.progress);
    const u64 index = chunks_ % chunk_count;
    kernels::copy(channel_.chunks[index].data(), static_cast<const std::byte*>(send.memory) + send.progress, bytes,
                  kernels::Stores::streaming);
    channel_.marks[index].number.store(++chunks_, std::memory_order_release);
    send.progress += bytes;
    moved = true;
    if (send.progress < send.bytes) continue;
    pushing_.pop();
    end(*slot_of(send.token));
  }
  return moved;
}

bool Outgoing::write_some() {
  if (writes_.empty()) return false;
  const Write write = writes_.front();
  Send& send = *write.send;
  for (u64 end = std::min(send.bytes, send.progress + fetched_at_once); send.progress < end;) {
    const u64 bytes = std::min(pushed_piece, send.bytes - send.progress);
    if (!write_piece(write, bytes)) return !health_.spoil(Code::remote_error, "gave up");
    send.progress += bytes;
  }
  if (send.progress < send.bytes) return true;
  writes_.pop_front();
  say(LineKind::written, send.token);
  return true;
}

// False: the peer has given up, and its memory is its own again.
bool Outgoing::write_piece(const Write& write, u64 bytes) {
  const u64 at = write.send->progress;
  channel_.writing.now.store(1, std::memory_order_seq_cst);
  const bool wanted = peer_end_.closed.load(std::memory_order_seq_cst) == 0;
  if (wanted)
    stores_.write(write.send->bytes, write.to + at, static_cast<const std::byte*>(write.send->memory) + at, bytes);
  channel_.writing.now.store(0, std::memory_order_release);
  return wanted;
}

void Outgoing::fail_all() {
  // Before this rank's memory changes: whoever reads there looks at this afterwards.
  channel_.sender.closed.store(1, std::memory_order_seq_cst);
  while (Operation* send = queue_.pop()) send->state = State::failed;
  for (Slot& slot : slots_)
    if (slot.send) slot.send->state = State::failed;
  while (pushing_.pop()) {
  }
  for (const Control& control : controls_)
    if (control.ends) control.ends->state = State::failed;
  writes_.clear();
  slots_.clear();
  free_slots_.clear();
  controls_.clear();
  held_ = false;
  waiting_ = 0;
}

}  // namespace softib::coll::shm
