#include "sm/requests.h"

#include <algorithm>
#include <utility>

namespace softib::sm {

using wire::Mad;

void Requests::get(const Path& path, SmpAttribute attribute, u32 modifier, Done done) {
  ask(path, wire::Method::get, attribute, modifier, {}, std::move(done));
}

void Requests::set(const Path& path, SmpAttribute attribute, u32 modifier, std::span<const u8> data, Done done) {
  ask(path, wire::Method::set, attribute, modifier, data, std::move(done));
}

void Requests::ask(const Path& path, wire::Method method, SmpAttribute attribute, u32 modifier,
                   std::span<const u8> data, Done done) {
  Mad mad{};
  wire::set(mad, wire::header::base_version, 1);
  wire::set(mad, wire::header::mgmt_class, static_cast<u8>(wire::MgmtClass::subn_directed));
  wire::set(mad, wire::header::class_version, 1);
  wire::set(mad, wire::header::method, static_cast<u8>(method));
  wire::set(mad, wire::header::hop_count, path.hops);
  wire::set(mad, wire::header::attribute, static_cast<u16>(attribute));
  wire::set(mad, wire::header::modifier, modifier);
  wire::set(mad, wire::smp::dr_slid, wire::permissive_lid);
  wire::set(mad, wire::smp::dr_dlid, wire::permissive_lid);
  std::copy_n(data.begin(), std::min<std::size_t>(data.size(), wire::smp::data_size), mad.begin() + wire::smp::data_at);
  std::copy(path.ports.begin(), path.ports.end(), mad.begin() + wire::smp::initial_path_at);
  waiting_.push_back({mad, std::move(done)});
}

void Requests::pump(u64 now) {
  while (!waiting_.empty() && outstanding_ < window) {
    while (slots_[next_slot_].used) next_slot_ = (next_slot_ + 1) % window;
    Slot& slot = slots_[next_slot_];
    slot.question = std::move(waiting_.front());
    waiting_.pop_front();
    slot.used = true;
    slot.tries = 0;
    slot.turn = (slot.turn + 1) & ((1U << (32 - slot_bits)) - 1);
    wire::set(slot.question.mad, wire::header::transaction,
              u64{transaction_tag} << 32 | u64{slot.turn} << slot_bits | next_slot_);
    ++outstanding_;
    transmit(slot, now);
  }
}

void Requests::transmit(Slot& slot, u64 now) {
  wire::Packet packet;
  packet.slid = wire::permissive_lid;
  packet.dlid = wire::permissive_lid;
  packet.mad = slot.question.mad;
  ++slot.tries;
  slot.deadline = now + timeout_ns;
  mouth_.send(packet);
}

void Requests::received(const Mad& mad) {
  const u64 transaction = wire::get(mad, wire::header::transaction);
  if (transaction >> 32 != transaction_tag) return;
  Slot& slot = slots_[transaction & (window - 1)];
  const bool same = slot.used && wire::get(slot.question.mad, wire::header::transaction) == transaction &&
                    wire::attribute_of(slot.question.mad) == wire::attribute_of(mad);
  if (!same) return;
  // A refusal is as good as no answer: the attribute is not there.
  const bool good = (wire::get(mad, wire::header::status) & 0x7fff) == 0;
  const Done done = release(slot);
  if (done) done(good ? &mad : nullptr);
}

Requests::Done Requests::release(Slot& slot) {
  slot.used = false;
  --outstanding_;
  return std::exchange(slot.question.done, nullptr);
}

u64 Requests::on_time(u64 now) {
  u64 first = ~u64{0};
  for (u32 i = 0; outstanding_ != 0 && i < window; ++i) {
    Slot& slot = slots_[i];
    if (!slot.used) continue;
    if (slot.deadline <= now) {
      if (slot.tries < tries) {
        transmit(slot, now);
      } else {
        const Done done = release(slot);
        if (done) done(nullptr);
      }
    }
    if (slot.used) first = std::min(first, slot.deadline);
  }
  return first;
}

void Requests::forget_all() {
  waiting_.clear();
  for (Slot& slot : slots_)
    if (slot.used) release(slot);
}

}  // namespace softib::sm
