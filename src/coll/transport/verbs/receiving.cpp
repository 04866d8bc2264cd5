// Long messages in. A receive is offered to its peer as soon as it is posted: for writing where it shall lie if that
// memory can be registered, else (and for sinks) a window of bounce slots, and if there are none to spare, by pieces
// over the control queue pair, which need nothing. What has a window may be read instead: reading.cpp. So a receive
// never waits for what another one holds.
#include <algorithm>
#include <cstring>

#include "coll/transport/verbs/engine.h"

namespace softib::coll::verbs {

namespace {

constexpr u32 written_tokens = 1U << 16;  // an immediate has room for so many

}  // namespace

void Engine::begin_landing(Peer& peer, Receive& receive, u32 answers) {
  if (peer.standing != Standing::connected) {
    receive.state = State::failed;
    return fail(peer, Code::remote_error, "has left");
  }
  if (answers == 0 && came_as_short(peer, receive)) return;
  Landing& landing = landings_.add();
  landing.peer = &peer;
  landing.receive = &receive;
  peer.landings.push_back(&landing);
  GrantBody body;
  body.answers = answers;
  landing.way = Way::pieces;
  if (answers == 0 && landing.id < written_tokens) {
    if (land_directly(landing, body)) {
      landing.way = Way::direct;
    } else if (land_in_window(landing, body)) {
      landing.way = Way::window;
    }
  }
  tell(peer,
       {.word = Word::grant,
        .way = may_read(landing) ? Way::fetch : landing.way,
        .stream = receive.stream,
        .bytes = receive.bytes,
        .token = landing.id,
        .count = receive.ordinal},
       body);
}

bool Engine::land_directly(Landing& landing, GrantBody& body) {
  Peer& peer = *landing.peer;
  const Receive& receive = *landing.receive;
  if (receive.sink != nullptr || peer.granted >= parts_->depths.data_receives) return false;
  landing.registration = parts_->registrar->acquire(receive.memory, receive.bytes, Access::write);
  if (landing.registration == nullptr) return false;
  body.address = reinterpret_cast<u64>(receive.memory);
  for (std::size_t i = 0; i < peer.rails.size(); i++)
    body.keys[i] = landing.registration->remote_key(peer.rails[i].device);
  peer.granted++;
  return true;
}

// A quarter of the slots is left for sending from.
bool Engine::land_in_window(Landing& landing, GrantBody& body) {
  Peer& peer = *landing.peer;
  Slots& pool = parts_->pool;
  landing.piece_bytes = pool.slot_bytes();
  landing.pieces = (landing.receive->bytes + landing.piece_bytes - 1) / landing.piece_bytes;
  const u32 reserve = pool.count() / 4;
  const u32 spare = pool.free() > reserve ? pool.free() - reserve : 0;
  // Many receives at once get less each.
  u64 window = std::min<u64>({max_window / 2, landing.pieces, std::max(spare / 4, 1U)});
  if (spare == 0 || peer.granted + window > parts_->depths.data_receives) return false;
  for (u32 i = 0; i < window; i++) {
    landing.slots.push_back(*pool.take());
    body.slots[i] = landing.slots.back();
  }
  body.window = static_cast<u32>(window);
  body.piece_bytes = static_cast<u32>(landing.piece_bytes);
  peer.granted += body.window;
  landing.told = 0;
  return true;
}

void Engine::give_window_back(Landing& landing) {
  landing.peer->granted -= static_cast<u32>(landing.slots.size());
  for (const u16 slot : landing.slots) parts_->pool.give_back(slot);
  landing.slots.clear();
}

void Engine::on_landed(Peer& peer, u32 rail, u32 immediate) {
  ibv_recv_wr request{};
  request.wr_id =
      WorkName{.job = Job::write_receive, .rail = static_cast<u8>(rail), .peer = static_cast<u16>(peer.index)}.pack();
  ibv_recv_wr* bad = nullptr;
  if (const int error = ibv_post_recv(peer.rails[rail].pair.get(), &request, &bad); error != 0)
    return fail(peer, Code::system_error, std::string("post of a receive: ") + std::strerror(error));
  Landing* landing = landings_.find(token_of(immediate));
  if (landing == nullptr || landing->peer != &peer) return;
  if (landing->way == Way::window) return take_slots(*landing, low_of(immediate));
  if (++landing->next == low_of(immediate)) end_landing(*landing, State::done);
}

// With several rails pieces overtake each other; the sink gets them in order. Where among the slots the next one was,
// if it has come.
std::optional<u64> Engine::take_next(Landing& landing) {
  const u64 place = landing.next % landing.slots.size();
  if (landing.next == landing.pieces || (landing.arrived >> place & 1) == 0) return std::nullopt;
  const u64 offset = landing.next * landing.piece_bytes;
  landing.arrived &= ~(1U << place);
  put(landing, offset, parts_->pool.at(landing.slots[place]),
      std::min(landing.piece_bytes, landing.receive->bytes - offset));
  landing.next++;
  return place;
}

void Engine::take_slots(Landing& landing, u32 piece) {
  Peer& peer = *landing.peer;
  const u64 window = landing.slots.size();
  // Of the pieces that may come now this is the one whose number ends so.
  const u64 ahead = (piece - landing.next) & 0xffff;
  if (ahead >= window) return;
  landing.arrived |= 1U << (landing.next + ahead) % window;
  while (take_next(landing)) {
    // The sender has no use for slots beyond the end of the message.
    if (landing.told + window < landing.pieces && landing.next - landing.told >= (window + 1) / 2) {
      landing.told = landing.next;
      tell(peer, {.word = Word::consumed, .bytes = landing.told, .token = landing.id});
      if (peer.standing == Standing::closed) return;  // and the landing has ended
    }
  }
  if (landing.next == landing.pieces) end_landing(landing, State::done);
}

void Engine::take_piece(Peer& peer, const Header& header, const std::byte* payload) {
  Landing* landing = landings_.find(header.token);
  if (landing == nullptr || landing->peer != &peer) return;
  put(*landing, landing->next, payload, header.bytes);
  landing->next += header.bytes;
  if (landing->next >= landing->receive->bytes) end_landing(*landing, State::done);
}

void Engine::put(Landing& landing, u64 offset, const std::byte* data, u64 bytes) {
  Receive& receive = *landing.receive;
  if (bytes == 0) return;
  if (receive.sink != nullptr) return receive.sink->take(offset, data, bytes);
  std::memcpy(static_cast<std::byte*>(receive.memory) + offset, data, bytes);
}

void Engine::end_landing(Landing& landing, State state) {
  Peer& peer = *landing.peer;
  std::erase(peer.landings, &landing);
  if (landing.way == Way::direct) peer.granted--;
  if (landing.way == Way::window) give_window_back(landing);
  if (landing.way == Way::fetch) end_reading(landing);
  parts_->registrar->release(landing.registration);
  if (landing.receive->sink == nullptr) landing.receive->data = landing.receive->memory;
  landing.receive->state = state;
  landings_.remove(landing);
}

}  // namespace softib::coll::verbs
