#include "coll/bootstrap/meeting.h"

#include <fmt/format.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <thread>

namespace softib::coll {

namespace {

constexpr auto time_for_hello = std::chrono::seconds(10);
constexpr auto time_for_last_words = std::chrono::seconds(5);  // also for those who come after it failed
constexpr std::size_t most_strangers = 256;

// Signals are for the program's own threads.
class BlockedSignals {
 public:
  BlockedSignals() {
    sigset_t all;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~BlockedSignals() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;

 private:
  sigset_t before_{};
};

std::string with_process(const Member& member) { return fmt::format("process {} on {}", member.process, member.host); }

}  // namespace

void Meeting::serve_in_background(std::vector<Fd> listeners, const Key& key) {
  const BlockedSignals blocked;
  std::thread([meeting = std::make_unique<Meeting>(std::move(listeners), key)] { meeting->serve(); }).detach();
}

void Meeting::serve() {
  while (Clock::now() < end_ && (phase_ != Phase::over || anything_unsent())) wait();
}

void Meeting::wait() {
  std::vector<pollfd> polled;
  for (const Fd& listener : listeners_) polled.push_back({listener.get(), POLLIN, 0});
  Clock::time_point wake = end_;
  for (const auto& visitor : visitors_) {
    const short events = visitor->socket.sending() ? POLLIN | POLLOUT : POLLIN;
    polled.push_back({visitor->socket.fd(), events, 0});
    wake = std::min(wake, visitor->deadline);
  }
  const int timeout = wake == Clock::time_point::max() ? -1 : milliseconds_until(wake);
  if (::poll(polled.data(), polled.size(), timeout) < 0) return;  // EINTR
  const std::size_t known = visitors_.size();
  for (std::size_t i = 0; i < known; ++i) look_at(*visitors_[i], polled[listeners_.size() + i].revents);
  for (std::size_t i = 0; i < listeners_.size(); ++i)
    if (polled[i].revents != 0) accept_all(listeners_[i]);
  drop_gone();
  finish_if_all_ready();
}

void Meeting::accept_all(const Fd& listener) {
  while (true) {
    auto fd = accept_one(listener.get());
    if (!fd) return make_room();
    if (!*fd) return;
    const bool full = static_cast<std::size_t>(std::ranges::count_if(
                          visitors_, [](auto& v) { return !v->rank && !v->gone; })) >= most_strangers;
    if (full) make_room();
    visitors_.push_back(std::make_unique<Visitor>(
        Visitor{FrameSocket(std::move(**fd), most_stranger_bytes), Clock::now() + time_for_hello, {}, false, false}));
  }
}

// Of those who haven't said who they are, the one that had the most time to.
void Meeting::make_room() {
  for (auto& visitor : visitors_) {
    if (visitor->rank || visitor->gone) continue;
    visitor->gone = true;
    visitor->socket.close();
    return;
  }
}

void Meeting::look_at(Visitor& visitor, short events) {
  if (visitor.gone) return;
  const bool late = Clock::now() >= visitor.deadline;
  if (events & POLLOUT && !visitor.socket.flush()) return lose(visitor);
  if (events & (POLLIN | POLLHUP | POLLERR)) {
    const auto stream = visitor.socket.receive();
    while (auto frame = visitor.socket.next()) {
      hear(visitor, *frame);
      if (visitor.gone) return;
    }
    if (visitor.socket.broken() || stream == FrameSocket::Stream::ended) return lose(visitor);
  }
  if (late) lose(visitor);
}

void Meeting::hear(Visitor& visitor, const Frame& frame) {
  const auto message = static_cast<MeetingMessage>(frame.type);
  if (!visitor.rank) return message == MeetingMessage::hello ? welcome(visitor, frame) : lose(visitor);
  if (message == MeetingMessage::ready && phase_ == Phase::connecting) {
    visitor.ready = true;
    return;
  }
  if (message != MeetingMessage::give_up) return lose(visitor);
  if (phase_ == Phase::failed) return;
  const auto reason = Reason::parse(frame.body);
  const std::string why = reason ? reason->text : "gave up";
  fail_all({Code::remote_error,
            fmt::format("{} when {} {}", who_is_missing(), name_of(guests_[*visitor.rank]->member), why)});
}

void Meeting::welcome(Visitor& visitor, const Frame& frame) {
  const auto hello = Hello::parse(frame.body);
  if (!hello) return lose(visitor);
  if (hello->key != key_) {
    log::info(log::no_rank, Subsystem::bootstrap, "{} came with the key of another meeting",
              name_of(hello->guest.member));
    return refuse_one(visitor, {Code::invalid_usage, "the unique id is not of this meeting: its key is wrong"});
  }
  visitor.deadline = Clock::time_point::max();
  if (phase_ == Phase::failed) return refuse_one(visitor, failure_);
  if (const std::string objection = objection_to(*hello); !objection.empty()) {
    refuse_one(visitor, {Code::invalid_usage, objection});
    return fail_all({Code::invalid_usage, objection});
  }
  if (guests_.empty()) {
    guests_.resize(hello->ranks);
    hellos_.resize(hello->ranks);
  }
  visitor.rank = hello->guest.member.rank;
  hellos_[*visitor.rank] = *hello;
  guests_[*visitor.rank] = hello->guest;
  if (++here_ == guests_.size()) send_table();
}

std::string Meeting::objection_to(const Hello& hello) const {
  const Member& member = hello.guest.member;
  const auto first = std::ranges::find_if(guests_, [](const auto& guest) { return guest.has_value(); });
  if (first != guests_.end() && hello.ranks != guests_.size())
    return fmt::format("{} says that there are {} ranks, {} said {}", name_of(member), hello.ranks,
                       name_of((*first)->member), guests_.size());
  if (first == guests_.end() || !guests_[member.rank]) return "";
  return fmt::format("rank {} is there twice: {}, and {}", member.rank, with_process(guests_[member.rank]->member),
                     with_process(member));
}

void Meeting::lose(Visitor& visitor) {
  visitor.gone = true;
  const std::string lost = visitor.socket.lost_way();
  visitor.socket.close();
  if (!visitor.rank || phase_ == Phase::over || phase_ == Phase::failed) return;
  const std::string who = name_of(guests_[*visitor.rank]->member);
  const bool all_came = phase_ == Phase::connecting;
  fail_all({Code::remote_error, fmt::format("{} before {}", lost.empty() ? who + " ended" : unreachable(who, lost),
                                            all_came ? "all ranks were connected" : "all ranks had come")});
}

void Meeting::send_table() {
  phase_ = Phase::connecting;
  const auto came_by = [](const Hello& hello) { return hello.came_by; };
  const std::size_t network = std::ranges::max(hellos_, {}, came_by).came_by;
  Table table;
  for (const Hello& hello : hellos_) {
    table.guests.push_back(hello.guest);
    if (network < hello.listens.size() && hello.listens[network]) table.guests.back().listens = *hello.listens[network];
  }
  say_to_guests(MeetingMessage::table, table.emit());
}

void Meeting::finish_if_all_ready() {
  if (phase_ != Phase::connecting) return;
  const auto ready = std::ranges::count_if(visitors_, [](const auto& v) { return v->rank && v->ready; });
  if (static_cast<std::size_t>(ready) < guests_.size()) return;
  phase_ = Phase::over;
  end_ = Clock::now() + time_for_last_words;
  say_to_guests(MeetingMessage::go, {});
}

void Meeting::fail_all(Reason reason) {
  phase_ = Phase::failed;
  failure_ = std::move(reason);
  end_ = Clock::now() + time_for_last_words;
  say_to_guests(MeetingMessage::refused, failure_.emit());
}

// It is closed by the other side, once it has read this, or when its time is over.
void Meeting::refuse_one(Visitor& visitor, const Reason& reason) {
  visitor.socket.post(std::make_shared<const Bytes>(frame_of(MeetingMessage::refused, reason.emit())));
  visitor.deadline = Clock::now() + time_for_last_words;
  if (!visitor.socket.flush()) lose(visitor);
}

void Meeting::say_to_guests(MeetingMessage message, std::span<const std::byte> body) {
  const auto frame = std::make_shared<const Bytes>(frame_of(message, body));
  for (const auto& visitor : visitors_) {
    if (!visitor->rank || visitor->gone) continue;
    visitor->socket.post(frame);
    if (visitor->socket.flush()) continue;
    lose(*visitor);
    if (message == MeetingMessage::table) return;  // all have been told of the loss
  }
}

void Meeting::drop_gone() {
  std::erase_if(visitors_, [](const auto& visitor) { return visitor->gone; });
}

bool Meeting::anything_unsent() const {
  return std::ranges::any_of(visitors_, [](const auto& v) { return v->rank && v->socket.sending(); });
}

std::string Meeting::who_is_missing() const {
  std::vector<u32> missing;
  for (u32 rank = 0; rank < guests_.size(); ++rank)
    if (!guests_[rank]) missing.push_back(rank);
  if (!missing.empty()) return fmt::format("{} of {} had not come", names_of_ranks(missing), guests_.size());
  for (const auto& visitor : visitors_)
    if (visitor->rank && !visitor->ready) missing.push_back(*visitor->rank);
  std::ranges::sort(missing);
  return fmt::format("{} had come, but had no connection with all others", names_of_ranks(missing));
}

}  // namespace softib::coll
