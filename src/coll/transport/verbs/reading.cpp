// Long messages that their receiver reads: what is combined with what is here is fetched piece by piece, each into a
// slot that the piece before has just left, and so is still in a near cache when it is combined. Written to a window it
// would go from one processor's cache to memory, or to the other's, before.
#include <algorithm>
#include <cstring>
#include <utility>

#include "coll/transport/verbs/engine.h"

namespace softib::coll::verbs {

namespace {

// Shorter ones are over before an offer is back.
constexpr u64 read_at_least = u64{32} << 10;
constexpr u64 read_piece_at_most = u64{128} << 10;
constexpr u64 whole_lines = 64;

}  // namespace

bool Engine::may_read(const Landing& landing) const {
  return parts_->reads && landing.way == Way::window && landing.receive->bytes >= read_at_least &&
         landing.peer->reads_at_once > 0 && !parts_->read_slots.empty();
}

// The window isn't needed then. Slots for reading are apart: what they hold needs nothing of any rank to be through.
void Engine::take_offer(Peer& peer, const Header& header, const std::byte* payload) {
  Landing* landing = landings_.find(header.token);
  if (landing == nullptr || landing->peer != &peer || landing->way != Way::window) return;
  give_window_back(*landing);
  landing->way = Way::fetch;
  std::memcpy(&landing->offer, payload, sizeof landing->offer);
  const u64 bytes = landing->receive->bytes;
  const u64 share = (bytes / peer.rails.size() + whole_lines) / whole_lines * whole_lines;
  landing->piece_bytes = std::min<u64>({read_piece_at_most, parts_->pool.slot_bytes(), share});
  landing->pieces = (bytes + landing->piece_bytes - 1) / landing->piece_bytes;
  landing->slots.resize(peer.reads_at_once * peer.rails.size());
  peer.reading.push_back(landing);
  make_busy(peer);
}

// One message after the other: several at once would share the near cache. And one piece on each rail before the next
// look at completions: of an HCA in software the last one is there already, and is best taken in at once; of others it
// isn't, and the next one follows.
bool Engine::post_reads(Peer& peer) {
  if (std::exchange(peer.pauses_reading, false)) return true;
  bool moved = false;
  for (std::size_t i = 0; i < peer.rails.size(); i++) {
    if (peer.reading.empty() || !post_read(*peer.reading.front())) break;
    moved = true;
    if (peer.reading.empty()) break;  // the peer failed
    const Landing& landing = *peer.reading.front();
    if (landing.posted == landing.pieces) peer.reading.pop_front();
  }
  return moved;
}

bool Engine::post_read(Landing& landing) {
  Peer& peer = *landing.peer;
  const auto place = static_cast<u32>(landing.posted % peer.rails.size());
  Rail& rail = peer.rails[place];
  if (rail.reads >= peer.reads_at_once || landing.posted - landing.next >= landing.slots.size() ||
      parts_->read_slots.empty())
    return false;
  const u16 slot = parts_->read_slots.back();
  parts_->read_slots.pop_back();
  landing.slots[landing.posted % landing.slots.size()] = slot;
  const u64 offset = landing.posted * landing.piece_bytes;
  ibv_sge part{reinterpret_cast<u64>(parts_->pool.at(slot)),
               static_cast<u32>(std::min(landing.piece_bytes, landing.receive->bytes - offset)),
               parts_->pool.local_key(rail.device)};
  ibv_send_wr request{};
  request.wr_id = WorkName{.job = Job::read,
                           .rail = static_cast<u8>(place),
                           .peer = static_cast<u16>(peer.index),
                           .item = static_cast<u16>(landing.id),
                           .slot = static_cast<u16>(slot + 1)}
                      .pack();
  request.sg_list = &part;
  request.num_sge = 1;
  request.send_flags = IBV_SEND_SIGNALED;
  request.opcode = IBV_WR_RDMA_READ;
  request.wr.rdma.remote_addr = landing.offer.address + offset;
  request.wr.rdma.rkey = landing.offer.keys[place];
  landing.posted++;
  rail.reads++;
  post(peer, rail, request);
  return true;
}

void Engine::on_read(Peer& peer, const WorkName& name) {
  peer.rails[name.rail].reads--;
  Landing* landing = landings_.find(name.item);
  if (landing == nullptr || landing->peer != &peer || landing->way != Way::fetch) return;
  const u64 places = landing->slots.size();
  for (u64 piece = landing->next; piece < landing->posted; piece++)
    if (landing->slots[piece % places] + 1U == name.slot) landing->arrived |= 1U << piece % places;
  while (const auto place = take_next(*landing)) parts_->read_slots.push_back(landing->slots[*place]);
  if (landing->next < landing->pieces) return;
  tell(peer, {.word = Word::fetched, .token = landing->id});
  peer.pauses_reading = true;
  make_busy(peer);
}

// Only now: the sender's part ends without this rank.
void Engine::on_told_fetched(Peer& peer, u32 token) {
  Landing* landing = landings_.find(token);
  if (landing != nullptr && landing->peer == &peer) end_landing(*landing, State::done);
}

// The queue pairs are gone if any of these slots is still being read into.
void Engine::end_reading(Landing& landing) {
  for (u64 piece = landing.next; piece < landing.posted; piece++)
    parts_->read_slots.push_back(landing.slots[piece % landing.slots.size()]);
}

}  // namespace softib::coll::verbs
