#include "pytorch/mailbox.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace softib::pytorch {

using coll::Code;
using coll::Communicator;
using coll::Error;
using coll::PointToPoint;

namespace {

// No program's tag: of a message that nobody gets.
constexpr u64 refused = ~u64{0};

}  // namespace

Mailbox::Mailbox(u32 ranks, u32 rank) : rank_(rank), peers_(ranks) {}

Task::Stage Mailbox::sending(u32 to, u64 tag, const void* memory, u64 bytes) {
  auto envelope = std::make_shared<Envelope>(Envelope{tag, bytes, {}});
  if (bytes != 0 && bytes <= Envelope::inside) std::memcpy(envelope->body.data(), memory, bytes);
  return [this, to, envelope, memory](Communicator& communicator, std::vector<coll::Request>& requests) -> coll::Done {
    if (to == rank_) {
      keep_own(envelope->tag, memory, envelope->bytes);
      return {};
    }
    std::vector<PointToPoint> messages{{PointToPoint::Kind::send, to, envelope.get(), sizeof(Envelope)}};
    if (envelope->bytes > Envelope::inside)
      messages.push_back({PointToPoint::Kind::send, to, const_cast<void*>(memory), envelope->bytes});
    auto request = communicator.start_messages(messages);
    if (!request) return tl::unexpected(request.error());
    requests.push_back(*request);
    return {};
  };
}

// Nobody tells of what a rank sends itself: it is there.
void Mailbox::keep_own(u64 tag, const void* memory, u64 bytes) {
  Kept kept{tag, std::vector<std::byte>(bytes)};
  if (bytes != 0) std::memcpy(kept.data.data(), memory, bytes);
  peers_[rank_].kept.push_back(std::move(kept));
}

void Mailbox::hand_over(Letter letter, u32 from, Due& due) {
  due.emplace_back([end = std::move(letter.end), from] { end(from); });
}

// A receive of another size than the message has is a fault of the program's, and takes the message with it.
bool Mailbox::fits(const Letter& letter, u32 from, u64 bytes, Due& due) {
  if (letter.bytes == bytes) return true;
  const Error error{Code::invalid_usage, fmt::format("rank {} sent {} bytes with tag {} where {} were to be received",
                                                     from, bytes, letter.tag, letter.bytes)};
  due.emplace_back([end = letter.end, error] { end(tl::unexpected<Error>(error)); });
  return false;
}

void Mailbox::expect(Letter letter, Due& due) {
  for (u32 rank = 0; rank < peers_.size(); ++rank) {
    if (letter.from && *letter.from != rank) continue;
    std::list<Kept>& kept = peers_[rank].kept;
    const auto found = std::find_if(kept.begin(), kept.end(), [&](const Kept& one) { return one.tag == letter.tag; });
    if (found == kept.end()) continue;
    if (fits(letter, rank, found->data.size(), due)) {
      if (letter.bytes != 0) std::memcpy(letter.memory, found->data.data(), letter.bytes);
      hand_over(std::move(letter), rank, due);
    }
    kept.erase(found);
    return;
  }
  awaited_.push_back(std::move(letter));
  changed_ = true;
}

const Letter* Mailbox::find_awaited(const void* owner) const {
  const auto found =
      std::find_if(awaited_.begin(), awaited_.end(), [owner](const Letter& letter) { return letter.owner == owner; });
  return found == awaited_.end() ? nullptr : &*found;
}

bool Mailbox::is_wanted_from(u32 rank) const {
  return std::any_of(awaited_.begin(), awaited_.end(),
                     [rank](const Letter& letter) { return !letter.from || *letter.from == rank; });
}

std::optional<Letter> Mailbox::take_awaited(u32 rank, u64 tag) {
  const auto found = std::find_if(awaited_.begin(), awaited_.end(), [&](const Letter& letter) {
    return letter.tag == tag && (!letter.from || *letter.from == rank);
  });
  if (found == awaited_.end()) return std::nullopt;
  std::optional<Letter> letter = std::move(*found);
  awaited_.erase(found);
  changed_ = true;
  return letter;
}

bool Mailbox::begin_envelope(Communicator& communicator, Peer& peer, u32 rank) {
  const PointToPoint message{PointToPoint::Kind::receive, rank, &peer.envelope, sizeof(Envelope)};
  auto request = communicator.start_messages({&message, 1});
  if (!request) return false;
  peer.request = *request;
  peer.wanted = true;
  peer.phase = Peer::Phase::envelope;
  return true;
}

void Mailbox::receive_body(Communicator& communicator, u32 rank, void* memory) {
  Peer& peer = peers_[rank];
  if (peer.envelope.bytes > Envelope::inside) {
    const PointToPoint message{PointToPoint::Kind::receive, rank, memory, peer.envelope.bytes};
    // An error here is the communicator's, and ends all letters.
    if (auto request = communicator.start_messages({&message, 1})) peer.request = *request;
  } else if (peer.envelope.bytes != 0) {
    std::memcpy(memory, peer.envelope.body.data(), peer.envelope.bytes);
  }
}

// An envelope is here: its message goes to who waits for it, or is kept.
void Mailbox::open(Communicator& communicator, u32 rank, Due& due) {
  Peer& peer = peers_[rank];
  peer.request = {};
  peer.phase = Peer::Phase::body;
  ++open_;
  std::optional<Letter> letter = take_awaited(rank, peer.envelope.tag);
  if (letter && fits(*letter, rank, peer.envelope.bytes, due)) {
    peer.letter = std::move(letter);
    return receive_body(communicator, rank, peer.letter->memory);
  }
  // A refused letter's message is taken off the wire and thrown away.
  const u64 tag = letter ? refused : peer.envelope.tag;
  peer.arriving = {tag, std::vector<std::byte>(peer.envelope.bytes)};
  receive_body(communicator, rank, peer.arriving.data.data());
}

void Mailbox::give_or_keep(u32 from, Kept kept, Due& due) {
  auto letter = take_awaited(from, kept.tag);
  if (!letter) return peers_[from].kept.push_back(std::move(kept));
  if (!fits(*letter, from, kept.data.size(), due)) return;
  if (letter->bytes != 0) std::memcpy(letter->memory, kept.data.data(), letter->bytes);
  hand_over(std::move(*letter), from, due);
}

void Mailbox::close(u32 rank, Due& due) {
  Peer& peer = peers_[rank];
  peer.request = {};
  peer.phase = Peer::Phase::idle;
  --open_;
  if (peer.letter) return hand_over(*std::exchange(peer.letter, std::nullopt), rank, due);
  if (peer.arriving.tag != refused) give_or_keep(rank, std::exchange(peer.arriving, {}), due);
}

// What this rank sent itself goes to who asked for it before.
void Mailbox::look_at_own(Due& due) {
  std::list<Kept> kept = std::move(peers_[rank_].kept);
  peers_[rank_].kept.clear();
  for (Kept& one : kept) give_or_keep(rank_, std::move(one), due);
}

// True: something moved.
bool Mailbox::move_peer(Communicator& communicator, u32 rank, Due& due) {
  Peer& peer = peers_[rank];
  if (peer.phase == Peer::Phase::idle && (!is_wanted_from(rank) || !begin_envelope(communicator, peer, rank)))
    return false;
  if (peer.request.valid()) {
    const auto done = communicator.test(peer.request);
    if (!done) fail_all(done.error(), due);
    if (!done || !*done) return false;
  }
  if (peer.phase == Peer::Phase::envelope)
    open(communicator, rank, due);
  else
    close(rank, due);
  return true;
}

// Envelopes of all ranks are asked for where a letter may come from any. Once one has come the others stay, and their
// senders owe nothing.
void Mailbox::tell_what_is_wanted(Communicator& communicator) {
  if (!std::exchange(changed_, false)) return;
  for (u32 rank = 0; rank < peers_.size(); ++rank) {
    Peer& peer = peers_[rank];
    if (peer.phase != Peer::Phase::envelope || peer.wanted == is_wanted_from(rank)) continue;
    peer.wanted = !peer.wanted;
    communicator.set_wanted(peer.request, peer.wanted);
  }
}

void Mailbox::move_on(Communicator& communicator, Due& due) {
  if (!awaited_.empty() && !peers_[rank_].kept.empty()) look_at_own(due);
  for (u32 rank = 0; rank < peers_.size(); ++rank) {
    if (rank == rank_) continue;
    while (move_peer(communicator, rank, due)) continue;
  }
  tell_what_is_wanted(communicator);
}

void Mailbox::fail_all(const Error& error, Due& due) {
  const auto fail = [&](Letter& letter) {
    due.emplace_back([end = std::move(letter.end), error] { end(tl::unexpected<Error>(error)); });
  };
  for (Letter& letter : awaited_) fail(letter);
  awaited_.clear();
  for (Peer& peer : peers_) {
    if (peer.letter) fail(*peer.letter);
    peer.letter.reset();
    peer.phase = Peer::Phase::idle;
    peer.request = {};
  }
  open_ = 0;
}

}  // namespace softib::pytorch
