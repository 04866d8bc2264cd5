// How a peer is lost: by an error of a queue pair, an event of the HCA, or because the caller gives it up.
#include <fmt/format.h>

#include "coll/log.h"
#include "coll/transport/verbs/engine.h"

namespace softib::coll::verbs {

namespace {

const char* hint_for(ibv_wc_status status) {
  switch (status) {
    case IBV_WC_RETRY_EXC_ERR:
      return "the peer's process, its port or the way there may be down";
    case IBV_WC_WR_FLUSH_ERR:
      return "the queue pair was ended by an earlier error";
    case IBV_WC_REM_ACCESS_ERR:
      return "the peer took back memory that it had granted";
    case IBV_WC_RNR_RETRY_EXC_ERR:
      return "the peer posted no receives";
    default:
      return "";
  }
}

}  // namespace

void Engine::give_up(u32 rank) {
  Peer* peer = find(rank);
  if (peer == nullptr) return;
  close(*peer);
  fail_operations(*peer);
}

void Engine::fail(Peer& peer, Code code, std::string why) {
  close(peer);
  fail_operations(peer);
  std::string text = fmt::format("{} {}", peer.title, why);
  log::info(static_cast<i32>(parts_->rank), Subsystem::net, "NET/IB : {}", text);
  failures_.push_back({peer.rank, Error{code, std::move(text)}});
}

// A queue pair that is destroyed reads and writes no memory any more: that is what destroying it waits for. In the
// error state it would still have to be asked whether the last packet is through.
void Engine::close(Peer& peer) {
  if (peer.standing == Standing::left) departed_--;
  peer.standing = Standing::closed;
  peer.control.reset();
  for (Rail& rail : peer.rails) rail.pair.reset();
  for (const u16 slot : peer.held_slots) parts_->send_slots.give_back(slot);
  peer.held_slots.clear();
  peer.notes.clear();
}

void Engine::fail_operations(Peer& peer) {
  while (!peer.transfers.empty()) end_transfer(*peer.transfers.back(), State::failed);
  peer.reading.clear();
  while (!peer.landings.empty()) end_landing(*peer.landings.back(), State::failed);
  while (Receive* receive = peer.receives.take_any()) receive->state = State::failed;
  while (Send* send = peer.sends.take_any()) send->state = State::failed;
  while (Send* send = peer.outbox.pop()) send->state = State::failed;
  while (Send* send = peer.announced.pop()) send->state = State::failed;
}

std::string Engine::describe(const Peer& peer, const ibv_wc& completion) const {
  const WorkName name = WorkName::unpack(completion.wr_id);
  const bool data = name.job == Job::write || name.job == Job::write_receive || name.job == Job::read;
  const std::string& where = data ? peer.rails[name.rail].where : peer.where;
  const Port& port = parts_->devices.ports[data ? peer.rails[name.rail].port : peer.control_port];
  std::string text = fmt::format("queue pair {}: {}", where, ibv_wc_status_str(completion.status));
  if (completion.vendor_err != 0) text += fmt::format(" (vendor error {:#x})", completion.vendor_err);
  if (const char* hint = hint_for(completion.status); *hint != 0) text += fmt::format("; {}", hint);
  if (completion.status == IBV_WC_RETRY_EXC_ERR)
    text += fmt::format("; SOFTIB_IB_TIMEOUT={} SOFTIB_IB_RETRY_CNT={}", parts_->timeout, parts_->retries);
  if (!port.trouble.empty()) text += fmt::format("; {} here told: {}", port.name, port.trouble);
  return text;
}

bool Engine::look_at_events() {
  bool any = false;
  for (u32 number = 0; number < parts_->devices.all.size(); number++) {
    Device& device = parts_->devices.all[number];
    ibv_async_event event{};
    while (ibv_get_async_event(device.context.get(), &event) == 0) {
      const ibv_async_event copy = event;
      ibv_ack_async_event(&event);
      on_event(device, number, copy);
      any = true;
    }
  }
  return any;
}

void Engine::on_event(Device& device, u32 number, const ibv_async_event& event) {
  const i32 rank = static_cast<i32>(parts_->rank);
  const char* what = ibv_event_type_str(event.event_type);
  switch (event.event_type) {
    case IBV_EVENT_PORT_ERR:
    case IBV_EVENT_PORT_ACTIVE:
      for (Port& port : parts_->devices.ports) {
        if (port.device != number || port.number != event.element.port_num) continue;
        port.trouble = event.event_type == IBV_EVENT_PORT_ERR ? what : "";
        log::warn(rank, "NET/IB : {}: {}", port.name, what);
      }
      return;
    case IBV_EVENT_DEVICE_FATAL:
    case IBV_EVENT_CQ_ERR: {
      const char* meaning =
          event.event_type == IBV_EVENT_DEVICE_FATAL ? " (the HCA was taken out, or has to be reset)" : "";
      log::warn(rank, "NET/IB : {}: {}{}", device.name, what, meaning);
      for (const auto& peer : parts_->peers) {
        if (peer->standing == Standing::connected)
          fail(*peer, Code::system_error, fmt::format("can't be reached: {}: {}{}", device.name, what, meaning));
      }
      return;
    }
    default:
      log::info(rank, Subsystem::net, "NET/IB : {}: {}", device.name, what);
  }
}

}  // namespace softib::coll::verbs
