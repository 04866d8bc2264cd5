#include "coll/bootstrap/mesh.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <algorithm>

#include "base/error_text.h"

namespace softib::coll {

namespace {

constexpr std::size_t words_limit = 4096;  // bytes of say()
constexpr auto time_for_farewell = std::chrono::seconds(1);

void raise(int event) {
  constexpr u64 one = 1;
  [[maybe_unused]] const auto written = ::write(event, &one, sizeof one);
}

void clear(int event) {
  u64 count = 0;
  [[maybe_unused]] const auto got = ::read(event, &count, sizeof count);
}

}  // namespace

Mesh::Mesh(Joining::Joined joined, u32 rank, std::chrono::nanoseconds timeout)
    : rank_(rank), timeout_(timeout), members_(std::move(joined.members)) {
  for (FrameSocket& socket : joined.peers) peers_.push_back({std::move(socket), Life::here, {}, 0, {}, false});
}

Outcome<std::unique_ptr<Bootstrap>> Mesh::of(Joining::Joined joined, u32 rank, std::chrono::nanoseconds timeout) {
  std::unique_ptr<Mesh> mesh(new Mesh(std::move(joined), rank, timeout));
  if (auto done = mesh->open_descriptors(); !done) return tl::unexpected(done.error());
  return mesh;
}

Outcome<void> Mesh::open_descriptors() {
  sockets_.reset(::epoll_create1(EPOLL_CLOEXEC));
  all_.reset(::epoll_create1(EPOLL_CLOEXEC));
  has_news_.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  interrupt_.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  bool good = sockets_ && all_ && has_news_ && interrupt_;
  good = good && watch(all_.get(), EPOLL_CTL_ADD, sockets_.get(), EPOLLIN, 0);
  good = good && watch(all_.get(), EPOLL_CTL_ADD, has_news_.get(), EPOLLIN, 0);
  for (u32 rank = 0; rank < peers_.size(); ++rank)
    if (rank != rank_) good = good && watch(sockets_.get(), EPOLL_CTL_ADD, peers_[rank].socket.fd(), EPOLLIN, rank);
  if (!good) return refuse(Code::system_error, "no descriptors for the bootstrap: " + error_text());
  const std::lock_guard guard(lock_);
  // What came right behind a join was read with it.
  for (u32 rank = 0; rank < peers_.size(); ++rank)
    while (auto frame = peers_[rank].socket.next()) hear(rank, std::move(*frame));
  return {};
}

bool Mesh::watch(int set, int operation, int fd, u32 events, u32 number) const {
  epoll_event event{};
  event.events = events;
  event.data.u32 = number;
  return ::epoll_ctl(set, operation, fd, &event) == 0;
}

Outcome<std::vector<Bytes>> Mesh::all_gather(std::span<const std::byte> mine) {
  if (mine.size() > most_blob_bytes)
    return refuse(Code::invalid_argument,
                  fmt::format("all_gather of {} bytes; {} is the most", mine.size(), most_blob_bytes));
  const Clock::time_point end = Clock::now() + timeout_;
  std::unique_lock guard(lock_);
  if (auto error = obstacle()) return tl::unexpected(*error);
  ++gatherings_;
  post_to_all(MeetingMessage::gather, Gather{gatherings_, mine}.emit());
  while (true) {
    look(0);
    if (all_gathered()) return take_gathered(mine);
    if (auto error = obstacle()) return tl::unexpected(*error);
    if (Clock::now() >= end) return tl::unexpected(late());
    guard.unlock();
    std::array<pollfd, 2> polled{{{sockets_.get(), POLLIN, 0}, {interrupt_.get(), POLLIN, 0}}};
    ::poll(polled.data(), polled.size(), milliseconds_until(end));
    guard.lock();
    clear(interrupt_.get());
  }
}

std::optional<Bootstrap::News> Mesh::news() {
  const std::lock_guard guard(lock_);
  if (news_.empty()) look(0);
  if (news_.empty()) return std::nullopt;
  News first = std::move(news_.front());
  news_.pop_front();
  if (news_.empty()) clear(has_news_.get());
  return first;
}

void Mesh::abort(const std::string& why) {
  const std::lock_guard guard(lock_);
  if (aborted_) return;
  aborted_ = why;
  post_to_all(MeetingMessage::abort, Reason{Code::remote_error, why}.emit());
  raise(interrupt_.get());
}

void Mesh::blame(u32 rank, u64 collective) {
  const std::lock_guard guard(lock_);
  post_to_all(MeetingMessage::blame, Blame{rank, collective}.emit());
}

void Mesh::say(const std::string& words) {
  const std::lock_guard guard(lock_);
  if (words.size() >= words_limit) return;  // others would take it for nonsense
  post_to_all(MeetingMessage::say, std::as_bytes(std::span(words)));
}

void Mesh::leave() {
  const std::lock_guard guard(lock_);
  say_farewell();
}

Mesh::~Mesh() {
  if (all_ && guard_.at_home() && obstacle()) say_farewell();
}

// Waits until the words are there, unless somebody doesn't read: closing a connection on which something unread has
// come takes back what is still on its way.
void Mesh::say_farewell() {
  if (left_) return;
  left_ = true;
  const auto why = obstacle();
  post_to_all(MeetingMessage::leave, why ? Reason{why->code, why->text}.emit() : Bytes());
  const Clock::time_point end = Clock::now() + time_for_farewell;
  const auto busy = [](const Peer& peer) { return peer.socket.open() && !peer.socket.all_arrived(); };
  while (std::ranges::any_of(peers_, busy) && Clock::now() < end) look(1);
}

void Mesh::post_to_all(MeetingMessage message, std::span<const std::byte> body) {
  const auto frame = std::make_shared<const Bytes>(frame_of(message, body));
  for (u32 rank = 0; rank < peers_.size(); ++rank) {
    if (!peers_[rank].socket.open()) continue;
    peers_[rank].socket.post(frame);
    send_to(rank);
  }
}

void Mesh::send_to(u32 rank) {
  Peer& peer = peers_[rank];
  // If it broke: what the peer said before can still be read, and its end after that.
  const bool sending = peer.socket.flush() && peer.socket.sending();
  if (sending == peer.watched_for_room) return;
  peer.watched_for_room = sending;
  static_cast<void>(
      watch(sockets_.get(), EPOLL_CTL_MOD, peer.socket.fd(), sending ? EPOLLIN | EPOLLOUT : EPOLLIN, rank));
}

void Mesh::look(int timeout_ms) {
  std::array<epoll_event, 64> events;
  while (true) {
    const int count = ::epoll_wait(sockets_.get(), events.data(), static_cast<int>(events.size()), timeout_ms);
    for (int i = 0; i < count; ++i)
      look_at(events[static_cast<std::size_t>(i)].data.u32, events[static_cast<std::size_t>(i)].events);
    if (count < static_cast<int>(events.size())) return;
    timeout_ms = 0;
  }
}

void Mesh::look_at(u32 rank, u32 events) {
  Peer& peer = peers_[rank];
  if (!peer.socket.open()) return;
  if (events & EPOLLOUT) send_to(rank);
  if (!(events & (EPOLLIN | EPOLLHUP | EPOLLERR))) return;
  const auto stream = peer.socket.receive();
  while (auto frame = peer.socket.next()) hear(rank, std::move(*frame));
  if (stream == FrameSocket::Stream::ended || peer.socket.broken()) lose(rank);
}

void Mesh::hear(u32 rank, Frame frame) {
  Peer& peer = peers_[rank];
  switch (static_cast<MeetingMessage>(frame.type)) {
    case MeetingMessage::gather: {
      const auto gather = Gather::parse(frame.body);
      if (!gather || gather->number != peer.gatherings + 1 || peer.gathered.size() >= 2) return lose(rank);
      ++peer.gatherings;
      peer.gathered.emplace_back(gather->blob.begin(), gather->blob.end());
      return;
    }
    case MeetingMessage::abort: {
      const auto reason = Reason::parse(frame.body);
      if (!reason || peer.life != Life::here) return;
      peer.life = Life::aborted;
      peer.why = reason->text;
      return tell({News::Kind::aborted, rank, 0, 0, reason->text});
    }
    case MeetingMessage::blame:
      if (const auto blame = Blame::parse(frame.body); blame && blame->rank < members_.size())
        tell({News::Kind::blames, rank, blame->rank, blame->collective, {}});
      return;
    case MeetingMessage::say:
      if (frame.body.size() >= words_limit) return lose(rank);
      return tell(
          {News::Kind::says, rank, 0, 0, {reinterpret_cast<const char*>(frame.body.data()), frame.body.size()}});
    case MeetingMessage::leave:
      if (peer.life != Life::here) return;
      peer.life = Life::left;
      if (const auto reason = Reason::parse(frame.body)) peer.why = ": " + reason->text;
      return;
    default:
      return lose(rank);
  }
}

void Mesh::lose(u32 rank) {
  Peer& peer = peers_[rank];
  if (!peer.socket.open()) return;
  std::string lost = peer.socket.lost_way();
  peer.socket.close();  // and so out of the epoll set
  if (peer.life == Life::left) return;
  if (peer.life == Life::here) {
    peer.life = Life::ended;
    peer.why = lost;
  }
  tell({News::Kind::ended, rank, 0, 0, std::move(lost)});
}

void Mesh::tell(News news) {
  news_.push_back(std::move(news));
  raise(has_news_.get());
}

bool Mesh::all_gathered() const {
  for (u32 rank = 0; rank < peers_.size(); ++rank)
    if (rank != rank_ && peers_[rank].gathered.empty()) return false;
  return true;
}

// Why this and each later all_gather fails.
std::optional<Error> Mesh::obstacle() const {
  if (aborted_) return Error{Code::remote_error, "aborted: " + *aborted_};
  for (u32 rank = 0; rank < peers_.size(); ++rank) {
    const Peer& peer = peers_[rank];
    const std::string who = name_of(members_[rank]);
    if (peer.life == Life::ended)
      return Error{Code::remote_error, peer.why.empty() ? who + " ended" : unreachable(who, peer.why)};
    if (peer.life == Life::aborted) return Error{Code::remote_error, fmt::format("{} aborted: {}", who, peer.why)};
    if (peer.life == Life::left && peer.gathered.empty())
      return Error{Code::remote_error, who + " has left" + peer.why};
  }
  return std::nullopt;
}

Error Mesh::late() const {
  std::vector<u32> missing;
  for (u32 rank = 0; rank < peers_.size(); ++rank)
    if (rank != rank_ && peers_[rank].gathered.empty()) missing.push_back(rank);
  return {Code::remote_error, fmt::format("{} waited {:.3g} s for {} in all_gather", name_of(members_[rank_]),
                                          std::chrono::duration<double>(timeout_).count(), names_of_ranks(missing))};
}

std::vector<Bytes> Mesh::take_gathered(std::span<const std::byte> mine) {
  std::vector<Bytes> all(peers_.size());
  for (u32 rank = 0; rank < peers_.size(); ++rank) {
    if (rank == rank_) continue;
    all[rank] = std::move(peers_[rank].gathered.front());
    peers_[rank].gathered.pop_front();
  }
  all[rank_].assign(mine.begin(), mine.end());
  return all;
}

}  // namespace softib::coll
