#include "coll/net/gate.h"

#include <algorithm>

namespace softib::coll {

namespace {

constexpr auto time_for_first_frame = std::chrono::seconds(10);

}  // namespace

void Gate::add_to(std::vector<pollfd>& polled) const {
  for (const Fd& listener : listeners_) polled.push_back({listener.get(), POLLIN, 0});
  for (const Stranger& stranger : strangers_) polled.push_back({stranger.socket.fd(), POLLIN, 0});
}

Clock::time_point Gate::deadline() const {
  Clock::time_point first = Clock::time_point::max();
  for (const Stranger& stranger : strangers_) first = std::min(first, stranger.deadline);
  return first;
}

void Gate::serve(std::span<const pollfd> polled, const Admit& admit) {
  for (std::size_t i = 0; i < strangers_.size(); ++i)
    look_at(strangers_[i], polled[listeners_.size() + i].revents != 0, admit);
  std::erase_if(strangers_, [](const Stranger& stranger) { return stranger.gone; });
  for (std::size_t i = 0; i < listeners_.size(); ++i)
    if (polled[i].revents != 0) accept_all(listeners_[i]);
}

void Gate::look_at(Stranger& stranger, bool readable, const Admit& admit) {
  const bool ended = readable && stranger.socket.receive() == FrameSocket::Stream::ended;
  if (const auto first = stranger.socket.next()) {
    admit(stranger.socket, *first);
    stranger.gone = true;
  }
  if (ended || stranger.socket.broken() || Clock::now() >= stranger.deadline) stranger.gone = true;
}

void Gate::accept_all(const Fd& listener) {
  while (true) {
    auto fd = accept_one(listener.get());
    if (!fd) return make_room();
    if (!*fd) return;
    if (strangers_.size() >= most_) make_room();
    strangers_.push_back({FrameSocket(std::move(**fd), limit_), Clock::now() + time_for_first_frame});
  }
}

void Gate::make_room() {
  if (!strangers_.empty()) strangers_.erase(strangers_.begin());
}

}  // namespace softib::coll
