#include "coll/transport/tcp/incoming.h"

#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

namespace softib::coll::tcp {

namespace {

constexpr u64 most_announced = 1 << 20;
constexpr u64 direct_bytes = 8 << 10;  // from here on it pays to read straight into the receive's memory
constexpr int most_reads = 16;         // then others have their turn

}  // namespace

// Receives may be gone by now, if their owner gave them up with the transport.
Incoming::~Incoming() {
  if (kept_ && kept_->taker) delete kept_;
  for (auto& [stream, queue] : queues_)
    while (Kept* kept = queue.kept.pop()) delete kept;
}

void Incoming::add(Receive& receive) {
  ++waiting_;
  const auto at = queues_.find(receive.stream);
  if (at == queues_.end() || at->second.kept.empty()) {
    queues_[receive.stream].posted.push(receive);
    return;
  }
  std::unique_ptr<Kept> kept(at->second.kept.pop());
  if (at->second.kept.empty()) queues_.erase(at);
  hand_over(std::move(kept), receive);
}

void Incoming::hand_over(std::unique_ptr<Kept> kept, Receive& receive) {
  if (!fits(receive, kept->bytes)) {
    if (kept.get() == kept_) {  // the rest of it is read no more: the connection ends now
      kept_ = nullptr;
      left_ = 0;
    }
    return fail(&receive);
  }
  if (kept->announced) {
    --announced_;
    return kept->bytes == 0 ? finish(receive) : start_pull(receive, kept->token);
  }
  if (kept->arrived < kept->bytes) {
    kept->taker = &receive;
    static_cast<void>(kept.release());  // is kept_
    return;
  }
  if (receive.sink && kept->bytes)
    receive.sink->take(0, kept->data.get(), kept->bytes);
  else if (kept->bytes)
    std::memcpy(receive.memory, kept->data.get(), kept->bytes);
  give_back(kept->bytes);
  finish(receive);
}

bool Incoming::fits(const Receive& receive, u64 bytes) {
  if (receive.bytes == bytes) return true;
  static_cast<void>(complain(fmt::format("sent {} bytes where {} are received", bytes, receive.bytes)));
  return false;
}

bool Incoming::complain(std::string text) {
  if (complaint_.empty()) complaint_ = std::move(text);
  return false;
}

void Incoming::start_pull(Receive& receive, u64 token) {
  receive.progress = 0;
  receive.token = ++tokens_;
  pulling_.emplace(receive.token, &receive);
  answers_.add({Kind::pull, token, 0, receive.token});
}

void Incoming::finish(Receive& receive) {
  --waiting_;
  if (receive.lend) receive.data = receive.memory;
  receive.state = State::done;
}

void Incoming::fail(Receive* receive) {
  if (!receive) return;
  --waiting_;
  receive->state = State::failed;
}

// In few answers: each costs a system call.
void Incoming::give_back(u64 bytes) {
  owed_ += bytes + kept_overhead;
  kept_cost_ -= bytes + kept_overhead;
  if (owed_ < most_kept / 4) return;
  answers_.add({Kind::credit, 0, owed_, 0});
  owed_ = 0;
}

Receive* Incoming::take_posted(u64 stream) {
  const auto at = queues_.find(stream);
  if (at == queues_.end() || at->second.posted.empty()) return nullptr;
  auto* receive = static_cast<Receive*>(at->second.posted.pop());
  if (at->second.posted.empty()) queues_.erase(at);
  return receive;
}

void Incoming::keep(u64 stream, std::unique_ptr<Kept> kept) { queues_[stream].kept.push(*kept.release()); }

Incoming::Stream Incoming::read(int fd, bool& moved) {
  for (int i = 0; i < most_reads; ++i) {
    const ssize_t count = fill(fd);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EAGAIN) return Stream::open;
    if (count == 0) errno = 0;
    if (count <= 0) return Stream::ended;
    moved = true;
    if (!consume()) return Stream::broken;
  }
  return Stream::open;
}

// Where the rest of a long message goes without a stop in between.
std::byte* Incoming::direct_target() const {
  if (left_ < direct_bytes || begin_ != end_) return nullptr;
  if (kept_) return kept_->data.get() + kept_->arrived;
  return into_->sink ? nullptr : static_cast<std::byte*>(into_->memory) + into_->progress;
}

ssize_t Incoming::fill(int fd) {
  if (!staging_) staging_.reset(new Staging);
  if (begin_ == end_) begin_ = end_ = 0;
  auto& bytes = staging_->bytes;
  if (end_ == bytes.size()) {
    std::memmove(bytes.data(), bytes.data() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
  }
  std::byte* direct = direct_target();
  const u64 direct_room = direct ? left_ : 0;
  std::array<iovec, 2> parts{{{direct, direct_room}, {bytes.data() + end_, bytes.size() - end_}}};
  msghdr message{};
  message.msg_iov = direct ? parts.data() : parts.data() + 1;
  message.msg_iovlen = direct ? 2 : 1;
  const ssize_t count = ::recvmsg(fd, &message, 0);
  if (count <= 0) return count;
  const u64 straight = std::min<u64>(static_cast<u64>(count), direct_room);
  end_ += static_cast<u64>(count) - straight;
  if (straight > 0) arrived(straight);
  return count;
}

void Incoming::arrived(u64 bytes) {
  left_ -= bytes;
  (kept_ ? kept_->arrived : into_->progress) += bytes;
  if (left_ == 0) end_payload();
}

bool Incoming::consume() {
  while (true) {
    if (left_ > 0) {
      if (!take_payload()) return true;
      continue;
    }
    if (end_ - begin_ < header_bytes) return true;
    const auto header = parse(staging_->bytes.data() + begin_);
    begin_ += header_bytes;
    if (!header) return complain("sent garbage");
    if (!begin(*header)) return complain("sent what makes no sense here");
  }
}

// false: more has to come first.
bool Incoming::take_payload() {
  std::byte* from = staging_->bytes.data() + begin_;
  u64 count = std::min<u64>(left_, end_ - begin_);
  const bool sinks = !kept_ && into_->sink;
  if (sinks && count < left_) count -= count % element_bytes;
  if (count == 0) return false;
  if (sinks && begin_ % element_bytes != 0) {
    std::memmove(staging_->bytes.data(), from, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
    from = staging_->bytes.data();
  }
  begin_ += count;
  if (sinks) {
    into_->sink->take(into_->progress, from, count);
  } else {
    std::byte* to =
        kept_ ? kept_->data.get() + kept_->arrived : static_cast<std::byte*>(into_->memory) + into_->progress;
    std::memcpy(to, from, count);
  }
  arrived(count);
  return true;
}

bool Incoming::begin(const Header& header) {
  switch (header.kind) {
    case Kind::eager:
      return begin_eager(header);
    case Kind::announce:
      return begin_announced(header);
    case Kind::pull:
      return answers_.pull(header.name, header.token);
    case Kind::data:
      return begin_piece(header);
    case Kind::credit:
      return answers_.give_credit(header.bytes);
    case Kind::bye:
      said_bye_ = true;
      return true;
  }
  return false;
}

bool Incoming::begin_eager(const Header& header) {
  kept_cost_ += header.bytes + kept_overhead;
  if (header.bytes > most_eager || kept_cost_ + owed_ > most_kept) return false;
  left_ = header.bytes;
  piece_ = false;
  if (Receive* receive = take_posted(header.name)) {
    if (!fits(*receive, header.bytes)) {
      fail(receive);
      return false;
    }
    into_ = receive;
    receive->progress = 0;
  } else {
    auto kept = std::make_unique<Kept>();
    kept->bytes = header.bytes;
    kept->data.reset(header.bytes ? new std::byte[header.bytes] : nullptr);
    kept_ = kept.get();
    keep(header.name, std::move(kept));
  }
  if (left_ == 0) end_payload();
  return true;
}

bool Incoming::begin_announced(const Header& header) {
  if (Receive* receive = take_posted(header.name)) {
    if (!fits(*receive, header.bytes)) {
      fail(receive);
      return false;
    }
    header.bytes == 0 ? finish(*receive) : start_pull(*receive, header.token);
    return true;
  }
  if (++announced_ > most_announced) return false;
  auto kept = std::make_unique<Kept>();
  kept->bytes = header.bytes;
  kept->announced = true;
  kept->token = header.token;
  keep(header.name, std::move(kept));
  return true;
}

bool Incoming::begin_piece(const Header& header) {
  const auto at = pulling_.find(header.name);
  if (at == pulling_.end()) return false;
  Receive& receive = *at->second;
  const u64 rest = receive.bytes - receive.progress;
  if (header.bytes == 0 || header.bytes > rest || (header.bytes < rest && header.bytes % element_bytes != 0))
    return false;
  left_ = header.bytes;
  into_ = &receive;
  piece_ = true;
  return true;
}

void Incoming::end_payload() {
  if (Kept* kept = std::exchange(kept_, nullptr)) {
    if (Receive* taker = kept->taker) hand_over(std::unique_ptr<Kept>(kept), *taker);
    return;
  }
  Receive& receive = *std::exchange(into_, nullptr);
  if (piece_ && receive.progress < receive.bytes) return;
  if (piece_)
    pulling_.erase(receive.token);
  else
    give_back(receive.bytes);
  finish(receive);
}

void Incoming::fail_all(bool forget) {
  if (kept_ && kept_->taker) {
    fail(kept_->taker);
    delete kept_;
  }
  if (into_ && !piece_) fail(into_);
  for (const auto& [token, receive] : pulling_) fail(receive);
  pulling_.clear();
  into_ = nullptr;
  left_ = 0;
  for (auto at = queues_.begin(); at != queues_.end();) {
    Queue& queue = at->second;
    while (Operation* receive = queue.posted.pop()) fail(static_cast<Receive*>(receive));
    Fifo<Kept> whole;
    while (Kept* kept = queue.kept.pop()) {
      const bool useless = forget || kept->arrived < kept->bytes;
      useless ? delete kept : whole.push(*kept);
    }
    queue.kept = whole;
    at = whole.empty() ? queues_.erase(at) : std::next(at);
  }
  kept_ = nullptr;
}

}  // namespace softib::coll::tcp
