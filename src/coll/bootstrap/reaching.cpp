#include "coll/bootstrap/reaching.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>

#include <algorithm>
#include <thread>

#include "base/error_text.h"

namespace softib::coll {

namespace {

constexpr auto time_between_rounds = std::chrono::milliseconds(50);
// Longer than a lost packet takes to be sent again: the first address is to be taken wherever it can be reached.
constexpr auto time_alone = std::chrono::milliseconds(1500);
// Somebody else's host has refused, or the meeting is over: the other addresses tell which.
constexpr auto time_after_refusal = std::chrono::seconds(5);

// Is it worth trying again?
bool may_come_up(Errno error) {
  const int number = to_int(error);
  return number == ECONNREFUSED || number == ETIMEDOUT || number == ECONNRESET || number == EHOSTUNREACH ||
         number == ENETUNREACH || number == EAGAIN;
}

}  // namespace

Reaching::Reaching(const MeetingPlace& place, Clock::time_point deadline)
    : place_(place), deadline_(deadline), tries_(place.addresses.size()) {}

Outcome<Reaching::Reached> Reaching::run() {
  while (true) {
    begin_round();
    while (!all_begun() || is_under_way()) {
      if (auto reached = look()) return std::move(*reached);
      if (Clock::now() >= end_of_round()) break;
    }
    if (is_hopeless() || Clock::now() >= deadline_) return tl::unexpected(failure());
    std::this_thread::sleep_for(time_between_rounds);
  }
}

void Reaching::begin_round() {
  for (Try& one : tries_) one.fd.reset();
  next_ = 0;
  refused_at_.reset();
}

void Reaching::begin_next() {
  Try& next = tries_[next_];
  auto fd = begin_connect(place_.addresses[next_++]);
  if (fd) {
    next.fd = std::move(*fd);
    next_at_ = Clock::now() + time_alone;
  } else {
    next.error = fd.error();
  }
}

bool Reaching::is_under_way() const {
  return std::ranges::any_of(tries_, [](const Try& one) { return static_cast<bool>(one.fd); });
}

std::optional<Reaching::Reached> Reaching::look() {
  while (!all_begun() && (!is_under_way() || Clock::now() >= next_at_)) begin_next();
  std::vector<pollfd> polled;
  for (const Try& one : tries_) polled.push_back({one.fd ? one.fd.get() : -1, POLLOUT, 0});
  const Clock::time_point wake = all_begun() ? end_of_round() : std::min(end_of_round(), next_at_);
  if (!is_under_way() || ::poll(polled.data(), polled.size(), milliseconds_until(wake)) < 0) return std::nullopt;
  for (std::size_t which = 0; which < tries_.size(); ++which)
    if (polled[which].revents != 0)
      if (auto reached = look_at(which)) return reached;
  return std::nullopt;
}

std::optional<Reaching::Reached> Reaching::look_at(std::size_t which) {
  Try& one = tries_[which];
  const auto result = connect_result(one.fd.get());
  if (result) return Reached{std::move(one.fd), which};
  one.error = result.error();
  one.fd.reset();
  if (to_int(*one.error) == ECONNREFUSED && !refused_at_) refused_at_ = Clock::now();
  return std::nullopt;
}

// Who made the id listens since then, so a refusal won't become anything else.
bool Reaching::is_over() const { return place_.kind == MeetingPlace::Kind::made && refused_at_; }

bool Reaching::is_hopeless() const {
  return is_over() || std::ranges::all_of(tries_, [](const Try& one) { return one.error && !may_come_up(*one.error); });
}

Clock::time_point Reaching::end_of_round() const {
  return is_over() ? std::min(deadline_, *refused_at_ + time_after_refusal) : deadline_;
}

Error Reaching::failure() const {
  const bool remote = is_over() || !is_hopeless();
  const bool loopback = std::ranges::all_of(place_.addresses, &Address::is_loopback);
  const char* over = loopback ? "; it is over, or who made the unique id has ended, or is on another host: these "
                                "addresses are one's own host, and SOFTIB_SOCKET_IFNAME chooses other interfaces"
                              : "; it is over, or who made the unique id has ended";
  return {remote ? Code::remote_error : Code::system_error,
          fmt::format("can't reach the meeting at {}{}", results(), is_over() ? over : "")};
}

std::string Reaching::results() const {
  std::vector<std::string> texts;
  for (std::size_t which = 0; which < tries_.size(); ++which) {
    const auto& error = tries_[which].error;
    texts.push_back(fmt::format("{} ({})", place_.addresses[which].text(), error ? error_text(*error) : "no answer"));
  }
  return fmt::format("{}", fmt::join(texts, " or "));
}

}  // namespace softib::coll
