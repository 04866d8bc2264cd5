#include "coll/transport/verbs/engine.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <chrono>

namespace softib::coll::verbs {

namespace {

constexpr int batch = 16;
constexpr u32 rounds_between_events = 1U << 16;  // a look at events is a system call
constexpr auto patience_at_the_end = std::chrono::seconds(2);

}  // namespace

void Depths::halve() {
  for (u32* depth : {&control_receives, &control_sends, &data_receives, &data_writes})
    *depth = std::max(*depth / 2, 8U);
}

Engine::Engine(std::unique_ptr<Parts> parts, u32 ranks) : parts_(std::move(parts)), by_rank_(ranks, nullptr) {
  for (const auto& peer : parts_->peers) by_rank_[peer->rank] = peer.get();
  busy_.reserve(parts_->peers.size());
  for (const Device& device : parts_->devices.all) {
    descriptors_.push_back(device.channel->fd);
    descriptors_.push_back(device.context->async_fd);
  }
}

// What was sent is out of the senders' hands but may still be on its way: a queue pair that is destroyed sends nothing
// again that was lost.
Engine::~Engine() {
  for (const auto& peer : parts_->peers) {
    if (peer->standing == Standing::connected) tell(*peer, {.word = Word::bye});
  }
  const auto end = std::chrono::steady_clock::now() + patience_at_the_end;
  for (const auto& peer : parts_->peers) drain(*peer, end);
  for (const auto& peer : parts_->peers) {
    close(*peer);
    fail_operations(*peer);
    while (Arrival* arrival = peer->arrivals.take_any()) ::operator delete(arrival);
    while (const Grant* grant = peer->grants.take_any()) delete grant;
  }
}

bool Engine::progress() {
  bool moved = false;
  for (Device& device : parts_->devices.all) moved |= poll(device);
  // Peers join at the end while others are served, and leave when they have nothing left.
  for (std::size_t i = 0; i < busy_.size();) {
    Peer& peer = *busy_[i];
    moved |= peer.standing != Standing::closed && advance(peer);
    const bool done = peer.standing == Standing::closed ||
                      (peer.notes.empty() && peer.outbox.empty() && peer.transfers.empty() && peer.reading.empty() &&
                       !peer.pauses_reading && !peer.doom && peer.owed < parts_->depths.control_receives / 2);
    if (!done) {
      i++;
      continue;
    }
    peer.busy = false;
    busy_[i] = busy_.back();
    busy_.pop_back();
  }
  if (moved) {
    idle_rounds_ = 0;
    return true;
  }
  if (departed_ > 0) moved = settle_departures();
  if (++idle_rounds_ % rounds_between_events == 0) moved |= look_at_events();
  return moved;
}

bool Engine::poll(Device& device) {
  std::array<ibv_wc, batch> completions;
  const int count = ibv_poll_cq(device.completions.get(), batch, completions.data());
  for (int i = 0; i < count; i++) on_completion(completions[static_cast<std::size_t>(i)]);
  return count > 0;
}

void Engine::on_completion(const ibv_wc& completion) {
  const WorkName name = WorkName::unpack(completion.wr_id);
  Peer& peer = *parts_->peers[name.peer];
  // Completions of a queue pair that was destroyed may still lie in the queue; some HCAs take them out, some don't.
  if (peer.standing == Standing::closed) return;
  if (completion.status != IBV_WC_SUCCESS) return on_failed(peer, completion);
  switch (name.job) {
    case Job::control_send:
      on_control_sent(peer, name);
      break;
    case Job::control_receive:
      on_message(peer, name.item);
      break;
    case Job::write:
      on_written(peer, name);
      break;
    case Job::write_receive:
      on_landed(peer, name.rail, ntohl(completion.imm_data));
      break;
    case Job::read:
      on_read(peer, name);
      break;
  }
}

void Engine::on_failed(Peer& peer, const ibv_wc& completion) {
  if (peer.standing == Standing::connected) {
    look_at_events();  // a port that went down may be the cause
    if (peer.standing == Standing::connected) fail(peer, Code::remote_error, describe(peer, completion));
    return;
  }
  // Who has said bye need not answer any more.
  if (!peer.idle()) return fail(peer, Code::remote_error, "has left");
  close(peer);
}

void Engine::make_busy(Peer& peer) {
  if (peer.busy || peer.standing == Standing::closed) return;
  peer.busy = true;
  busy_.push_back(&peer);
}

bool Engine::advance(Peer& peer) {
  bool moved = post_notes(peer);
  if (peer.doom) {
    if (!peer.notes.empty() || peer.control_in_flight > peer.unsignalled) return moved;
    fail(peer, peer.doom->code, peer.doom->text);
    return true;
  }
  if (peer.standing == Standing::connected) moved |= post_outbox(peer);
  moved |= post_reads(peer);
  // A transfer that ends takes itself out of the list.
  for (std::size_t i = 0; i < peer.transfers.size() && peer.standing == Standing::connected;) {
    const Transfer* transfer = peer.transfers[i];
    moved |= advance(*peer.transfers[i]);
    if (i < peer.transfers.size() && peer.transfers[i] == transfer) i++;
  }
  return moved;
}

// A peer that said bye sends nothing any more: once all that it had sent is taken in, what still waits for it waits in
// vain.
bool Engine::settle_departures() {
  bool settled = false;
  for (const auto& peer : parts_->peers) {
    if (peer->standing != Standing::left || peer->idle()) continue;
    fail(*peer, Code::remote_error, "has left");
    settled = true;
  }
  return settled;
}

// Until the peer has everything that was sent, or has said bye itself.
void Engine::drain(Peer& peer, std::chrono::steady_clock::time_point end) {
  while (peer.standing == Standing::connected && (!peer.notes.empty() || peer.control_in_flight > peer.unsignalled)) {
    if (std::chrono::steady_clock::now() > end) return;
    post_notes(peer);
    for (Device& device : parts_->devices.all) poll(device);
  }
}

bool Engine::arm() {
  for (Device& device : parts_->devices.all) {
    ibv_cq* queue = nullptr;
    void* unused = nullptr;
    u32 events = 0;
    while (ibv_get_cq_event(device.channel.get(), &queue, &unused) == 0) events++;
    if (events > 0) ibv_ack_cq_events(device.completions.get(), events);
    ibv_req_notify_cq(device.completions.get(), 0);
  }
  for (const auto& peer : parts_->peers) tell_of_waits(*peer);
  // What completed before the request makes no event. A look after it finds it.
  const bool happened = look_at_events();
  return !progress() && !happened;
}

std::optional<PeerFailure> Engine::broken() {
  if (failures_.empty()) return std::nullopt;
  PeerFailure failure = std::move(failures_.front());
  failures_.pop_front();
  return failure;
}

}  // namespace softib::coll::verbs
