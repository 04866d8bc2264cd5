#include "coll/transport/tcp/transport.h"

#include <fmt/format.h>
#include <sys/epoll.h>

#include <algorithm>
#include <thread>

#include "base/error_text.h"
#include "coll/net/sockets.h"

namespace softib::coll::tcp {

namespace {

constexpr auto time_for_goodbye = std::chrono::seconds(2);

}  // namespace

void Connection::send(Send& send) {
  send.state = State::waiting;
  send.progress = 0;
  if (ended_) return refuse(send);
  const bool idle = outgoing_.empty();
  outgoing_.add(send);
  if (idle) write();
}

void Connection::receive(Receive& receive) {
  receive.state = State::waiting;
  receive.progress = 0;
  receive.data = nullptr;
  incoming_.add(receive);
  if (!incoming_.complaint().empty()) end(incoming_.complaint(), Code::invalid_usage);
  if (ended_) incoming_.fail_all(false);
  if (receive.state == State::failed) refuse(receive);
  if (!ended_ && !outgoing_.empty()) write();
}

// Somebody still counted on the peer.
void Connection::refuse(Operation& operation) {
  operation.state = State::failed;
  left_in_order_ = false;
}

bool Connection::read() {
  bool moved = false;
  const auto stream = incoming_.read(fd_.get(), moved);
  const int error = errno;
  if (stream == Incoming::Stream::broken) {
    end(incoming_.complaint(), Code::invalid_usage);
  } else if (stream == Incoming::Stream::ended) {
    left_in_order_ = incoming_.said_bye() && !incoming_.expects() && outgoing_.idle() && !lost_sends_;
    end(error ? "is not reached any more: " + error_text(error) : "closed its connection", Code::remote_error);
  }
  return moved || stream != Incoming::Stream::open;
}

// If it is broken, what came before is still to be read; its end comes after that.
bool Connection::write() {
  bool moved = false;
  if (outgoing_.write(fd_.get(), moved)) return moved;
  lost_sends_ = true;
  outgoing_.fail_all();
  return true;
}

void Connection::end(std::string why, Code code) {
  if (ended_) return;
  ended_ = Error{code, fmt::format("{} {}", name_of(member_), why)};
  fd_.reset();
  outgoing_.fail_all();
  incoming_.fail_all(false);
}

void Connection::give_up() {
  told_ = true;
  end("was given up", Code::remote_error);
  incoming_.fail_all(true);
}

std::optional<Error> Connection::take_failure() {
  if (!ended_ || told_ || left_in_order_) return std::nullopt;
  told_ = true;
  return ended_;
}

void Connection::begin_farewell() {
  if (!open()) return;
  outgoing_.add({Kind::bye, 0, 0, 0});
  write();
}

bool Connection::farewell_said() const {
  return !open() || (outgoing_.empty() && unacknowledged_bytes(fd_.get()) == 0);
}

TcpTransport::TcpTransport(std::vector<std::unique_ptr<Connection>> connections)
    : connections_(std::move(connections)) {}

Outcome<void> TcpTransport::open_descriptors() {
  ready_.reset(::epoll_create1(EPOLL_CLOEXEC));
  ready_descriptor_ = ready_.get();
  bool good = static_cast<bool>(ready_);
  for (u32 peer = 0; peer < connections_.size(); ++peer) {
    if (!connections_[peer]) continue;
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u32 = peer;
    good = good && ::epoll_ctl(ready_.get(), EPOLL_CTL_ADD, connections_[peer]->fd(), &event) == 0;
  }
  if (!good) return coll::refuse(Code::system_error, "no descriptors for TCP: " + error_text());
  return {};
}

// Closing a connection on which something unread has come takes back what is still on its way.
TcpTransport::~TcpTransport() {
  if (!guard_.at_home()) return;
  for (auto& connection : connections_)
    if (connection) connection->begin_farewell();
  const Clock::time_point end = Clock::now() + time_for_goodbye;
  const auto said = [](const auto& connection) { return !connection || connection->farewell_said(); };
  while (!std::ranges::all_of(connections_, said) && Clock::now() < end) {
    if (!progress()) std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
}

Connection* TcpTransport::find(u32 peer) const {
  return peer < connections_.size() ? connections_[peer].get() : nullptr;
}

void TcpTransport::watch(u32 peer) {
  Connection& connection = *connections_[peer];
  if (connection.wants_room() == connection.watched_for_room || !connection.open()) return;
  connection.watched_for_room = connection.wants_room();
  epoll_event event{};
  event.events = connection.watched_for_room ? EPOLLIN | EPOLLOUT : EPOLLIN;
  event.data.u32 = peer;
  ::epoll_ctl(ready_.get(), EPOLL_CTL_MOD, connection.fd(), &event);
}

void TcpTransport::send(Send& send) {
  if (Connection* connection = find(send.peer)) {
    connection->send(send);
    watch(send.peer);
  } else {
    send.state = State::failed;
  }
}

void TcpTransport::receive(Receive& receive) {
  if (Connection* connection = find(receive.peer)) {
    connection->receive(receive);
    watch(receive.peer);
  } else {
    receive.state = State::failed;
  }
}

bool TcpTransport::progress() {
  std::array<epoll_event, 32> events;
  const int count = ::epoll_wait(ready_.get(), events.data(), static_cast<int>(events.size()), 0);
  bool moved = false;
  for (const epoll_event& event : std::span(events).first(static_cast<std::size_t>(std::max(count, 0)))) {
    Connection& connection = *connections_[event.data.u32];
    if (connection.open() && event.events & ~EPOLLOUT) moved |= connection.read();
    if (connection.wants_room()) moved |= connection.write();
    watch(event.data.u32);
  }
  return moved;
}

void TcpTransport::give_up(u32 peer) {
  if (Connection* connection = find(peer)) connection->give_up();
}

std::optional<PeerFailure> TcpTransport::broken() {
  for (u32 peer = 0; peer < connections_.size(); ++peer)
    if (connections_[peer])
      if (auto error = connections_[peer]->take_failure()) return PeerFailure{peer, *error};
  return std::nullopt;
}

}  // namespace softib::coll::tcp
