#include "coll/transport/shm/incoming.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>

#include "coll/kernels/kernels.h"

namespace softib::coll::shm {

namespace {

// What is pulled goes past the caches from there on. The peer has often read the old content of the target, as programs
// use buffers again; to store into lines that both caches hold takes the other one's leave for each of them.
constexpr u64 streamed_pull_least = u64{32} << 10;
static_assert(Incoming::scratch_bytes % 64 == 0 && chunk_bytes % 64 == 0 && fetched_at_once % 64 == 0);

}  // namespace

void Incoming::receive_early(Receive& receive) {
  if (const auto early = matches_.take_early(receive.stream)) {
    if (early->announced) {
      if (begin(receive, early->announcement)) fetch();
      return;
    }
    early_cost_ -= cost_of(early->bytes);
    matched_ += cost_of(early->bytes);
    channel_.taken.matched.store(matched_, std::memory_order_release);
    (void)deliver(receive, early->data(), early->bytes);
    return;
  }
  matches_.post_later(receive);
  poll();
}

void Incoming::release(Receive& receive) {
  if (receive.data == receive.memory || !receive.data) return;
  receive.data = nullptr;
  // If the peer gave up meanwhile, anything may have been read.
  if (!still_valid()) return;
  receive.state = State::waiting;
  answers_.say_finished(receive.token, receive);
}

bool Incoming::poll_lines() {
  const u64 before = lines_;
  while (lines_ - before < line_count) {
    const Line& line = channel_.lines[lines_ % line_count];
    const u64 word = line.head.load(std::memory_order_acquire);
    if (word >> 32 != turn() || !take(line, Head::of(word))) break;
    ++lines_;
  }
  publish();
  return true;
}

inline void Incoming::publish() {
  channel_.taken.matched.store(matched_, std::memory_order_release);
  channel_.taken.data.store(data_, std::memory_order_release);
  channel_.taken.lines.store(lines_, std::memory_order_release);
}

inline bool Incoming::take(const Line& line, Head head) {
  if (head.kind == LineKind::message) [[likely]]
    return take_message(line, head.bytes);
  return take_control(line, head.kind);
}

bool Incoming::take_control(const Line& line, LineKind kind) {
  switch (kind) {
    case LineKind::message:
      break;
    case LineKind::announcement:
      return take_announcement(line);
    case LineKind::request:
      return answers_.requested(line.name) ||
             health_.spoil(Code::remote_error, "asked for a message that it wasn't offered");
    case LineKind::finished:
      return answers_.finished(line.name) ||
             health_.spoil(Code::remote_error, "has read a message that it wasn't offered");
    case LineKind::place: {
      u64 place = 0;
      std::memcpy(&place, line.payload.data(), sizeof place);
      return answers_.placed(line.name, place) ||
             health_.spoil(Code::remote_error, "wants a message that it wasn't offered, or wants it nowhere");
    }
    case LineKind::written:
      return take_written(line.name) ||
             health_.spoil(Code::remote_error, "has written a message that it wasn't asked for");
  }
  return health_.spoil(Code::remote_error, "wrote what is no message into shared memory");
}

inline bool Incoming::take_message(const Line& line, u64 bytes) {
  const std::byte* data = line.payload.data();
  if (bytes > inline_most) {
    if (bytes > eager_most)
      return health_.spoil(Code::remote_error, "wrote a message of a wrong length into shared memory");
    const u64 place = data_place(data_, bytes);
    data = channel_.data.data() + place % data_bytes;
    data_ = place + whole_lines(bytes);
  }
  const Stream stream = line.name;
  Receive* receive = matches_.take_posted(stream);
  if (!receive) return keep(stream, data, bytes);
  matched_ += cost_of(bytes);
  return deliver(*receive, data, bytes);
}

bool Incoming::keep(Stream stream, const std::byte* data, u64 bytes) {
  early_cost_ += cost_of(bytes);
  if (early_cost_ > early_most) return health_.spoil(Code::remote_error, "sends more than it may before it is asked");
  Early* early = Early::make(stream, bytes);
  if (bytes > 0) std::memcpy(early->data(), data, bytes);
  matches_.keep(*early);
  return true;
}

inline bool Incoming::deliver(Receive& receive, const std::byte* data, u64 bytes) {
  if (!fits(receive, bytes)) return false;
  if (!receive.sink)
    copy_short(receive.memory, data, bytes);
  else if (bytes > 0)
    receive.sink->take(0, data, bytes);
  done(receive);
  return true;
}

inline void Incoming::done(Receive& receive) {
  receive.data = receive.memory;
  receive.state = State::done;
  --waiting_;
}

// The data is here, and the sender is to hear of it.
void Incoming::finished(Receive& receive) {
  receive.data = receive.memory;
  --waiting_;
  answers_.say_finished(receive.token, receive);
}

void Incoming::failed(Receive& receive) {
  receive.state = State::failed;
  --waiting_;
}

inline bool Incoming::fits(Receive& receive, u64 bytes) {
  if (receive.bytes == bytes) return true;
  failed(receive);
  return health_.spoil(
      Code::invalid_usage,
      fmt::format("sent {} bytes where {} were to be received: do all ranks call the same collectives with the "
                  "same counts?",
                  bytes, receive.bytes));
}

bool Incoming::take_announcement(const Line& line) {
  Announcement announcement;
  std::memcpy(&announcement, line.payload.data(), sizeof announcement);
  if (Receive* receive = matches_.take_posted(line.name)) return begin(*receive, announcement);
  Early* early = Early::make(line.name, 0);
  early->announced = true;
  early->announcement = announcement;
  matches_.keep(*early);
  return true;
}

bool Incoming::begin(Receive& receive, const Announcement& announcement) {
  if (!fits(receive, announcement.bytes)) return false;
  receive.token = announcement.token;
  receive.progress = 0;
  if (receive.bytes == 0) {
    finished(receive);
    return true;
  }
  if (ask_for_write(receive, announcement)) return true;
  if (announcement.place != Announcement::nowhere || way_of(receive) == Fetch::read)
    return begin_pull(receive, announcement);
  answers_.say(LineKind::request, receive.token);
  chunked_.push(receive);
  fetching_ = true;
  return true;
}

Fetch Incoming::way_of(const Receive& receive) {
  if (!peer_.process.readable()) return Fetch::chunks;
  if (!choices_) return Fetch::read;
  if (fetching_) return burst_.way;
  const auto [way, timed] = choices_->of(receive).next();
  burst_.way = way;
  burst_.timed = timed ? &receive : nullptr;
  if (timed) burst_.begin = std::chrono::steady_clock::now();
  return way;
}

void Incoming::note_time(const Receive& receive) {
  if (burst_.timed != &receive) return;
  burst_.timed = nullptr;
  const std::chrono::nanoseconds time = std::chrono::steady_clock::now() - burst_.begin;
  choices_->of(receive).learn(burst_.way, receive.bytes, static_cast<u64>(time.count()));
}

// False: there is another way.
bool Incoming::ask_for_write(Receive& receive, const Announcement& announcement) {
  if (announcement.push != 1 || receive.lend || receive.sink || receive.bytes < push_least) return false;
  const auto place = arena_.place_of(receive.memory, receive.bytes);
  if (!place) return false;
  answers_.say(LineKind::place, receive.token, *place);
  placed_.push(receive);
  return true;
}

bool Incoming::take_written(u64 token) {
  auto* receive = static_cast<Receive*>(placed_.front());
  if (!receive || receive->token != token) return false;
  placed_.pop();
  done(*receive);
  return true;
}

bool Incoming::begin_pull(Receive& receive, const Announcement& announcement) {
  const std::byte* mapped = nullptr;
  if (announcement.place != Announcement::nowhere) {
    mapped = peer_.arena.at(announcement.place, receive.bytes);
    if (!mapped) {
      failed(receive);
      return health_.spoil(Code::remote_error, "shares memory that can't be mapped");
    }
    if (receive.lend) {
      done(receive);
      receive.data = mapped;
      return true;
    }
  }
  pulls_.push_back({&receive, announcement.token, mapped, announcement.address});
  fetching_ = true;
  return true;
}

bool Incoming::fetch() {
  bool moved = false;
  if (!pulls_.empty()) moved |= pull_some();
  if (!chunked_.empty()) moved |= take_chunks();
  fetching_ = !pulls_.empty() || !chunked_.empty();
  return moved;
}

void Incoming::hand(Receive& receive, const std::byte* data, u64 bytes, u64 streamed_from) {
  const auto stores = receive.bytes >= streamed_from ? kernels::Stores::streaming : kernels::Stores::cached;
  if (receive.sink)
    receive.sink->take(receive.progress, data, bytes);
  else
    kernels::copy(static_cast<std::byte*>(receive.memory) + receive.progress, data, bytes, stores);
}

// After reading the peer's memory: whether it was what the peer meant to send.
bool Incoming::still_valid() {
  std::atomic_thread_fence(std::memory_order_acquire);
  return channel_.sender.closed.load(std::memory_order_acquire) == 0 || health_.spoil(Code::remote_error, "gave up");
}

bool Incoming::pull_some() {
  const Pull pull = pulls_.front();
  Receive& receive = *pull.receive;
  for (u64 end = std::min(receive.bytes, receive.progress + fetched_at_once); receive.progress < end;) {
    u64 bytes = end - receive.progress;
    if (pull.mapped) {
      hand(receive, pull.mapped + receive.progress, bytes, streamed_pull_least);
    } else {
      if (receive.sink) bytes = std::min(bytes, scratch_bytes);
      std::byte* into = receive.sink ? scratch_ : static_cast<std::byte*>(receive.memory) + receive.progress;
      if (!peer_.process.read(into, pull.address + receive.progress, bytes))
        return !health_.spoil(Code::remote_error, "has left, or its memory can't be read any more");
      if (receive.sink) receive.sink->take(receive.progress, into, bytes);
    }
    receive.progress += bytes;
  }
  if (!still_valid() || receive.progress < receive.bytes) return true;
  pulls_.pop_front();
  note_time(receive);
  finished(receive);
  return true;
}

bool Incoming::take_chunks() {
  bool moved = false;
  for (u64 turn = 0; turn < chunks_at_once && !chunked_.empty(); ++turn) {
    const u64 index = chunks_ % chunk_count;
    if (channel_.marks[index].number.load(std::memory_order_acquire) != chunks_ + 1) break;
    auto& receive = static_cast<Receive&>(*chunked_.front());
    const u64 bytes = std::min(chunk_bytes, receive.bytes - receive.progress);
    hand(receive, channel_.chunks[index].data(), bytes, kernels::streaming_bytes);
    receive.progress += bytes;
    channel_.taken.chunks.store(++chunks_, std::memory_order_release);
    moved = true;
    if (receive.progress < receive.bytes) continue;
    chunked_.pop();
    note_time(receive);
    done(receive);
  }
  return moved;
}

// The peer may be in the middle of a piece. It has ended since, or will see that it is over when it begins the next
// one, or has been stopped right there.
void Incoming::take_back_places() {
  constexpr auto longest = std::chrono::milliseconds(50);
  const auto writes = [this] { return channel_.writing.now.load(std::memory_order_seq_cst) != 0; };
  const auto end = std::chrono::steady_clock::now() + longest;
  bool in_doubt = !placed_.empty() && writes();
  while (in_doubt && std::chrono::steady_clock::now() < end)
    in_doubt = !has_ended(peer_.process_id, std::chrono::milliseconds(1)) && writes();
  while (Operation* placed = placed_.pop()) {
    placed->state = State::failed;
    if (in_doubt) arena_.detach(static_cast<Receive*>(placed)->memory, placed->bytes);
  }
}

void Incoming::fail_all() {
  take_back_places();
  while (Receive* receive = matches_.take_any_posted()) receive->state = State::failed;
  while (Operation* receive = chunked_.pop()) receive->state = State::failed;
  for (const Pull& pull : pulls_) pull.receive->state = State::failed;
  pulls_.clear();
  burst_.timed = nullptr;
  matches_.forget_early();
  fetching_ = false;
  waiting_ = 0;
}

}  // namespace softib::coll::shm
