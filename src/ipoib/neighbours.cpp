#include "ipoib/neighbours.h"

#include <algorithm>
#include <iterator>

namespace softib::ipoib {

void hold(std::deque<Held>& waiting, Held held) {
  waiting.push_back(std::move(held));
  if (waiting.size() > most_waiting) waiting.pop_front();
}

void Neighbours::doubt(const Ip& ip, Neighbour& neighbour, Time now, Outcome& outcome) {
  neighbour.state = Neighbour::State::doubted;
  neighbour.tries = 1;
  neighbour.due = now + between_tries;
  ++asking_;
  outcome.questions.push_back({ip, neighbour.hardware});
}

const HardwareAddress* Neighbours::use(const Ip& ip, Time now, Outcome& outcome) {
  const auto at = entries_.find(ip);
  if (at != entries_.end()) [[likely]] {
    Neighbour& neighbour = at->second;
    neighbour.used = now;
    if (neighbour.state == Neighbour::State::asking) return nullptr;
    if (neighbour.state == Neighbour::State::known && now >= neighbour.due) doubt(ip, neighbour, now, outcome);
    return &neighbour.hardware;
  }
  if (entries_.size() >= most) return nullptr;
  Neighbour& neighbour = entries_[ip];
  neighbour.tries = 1;
  neighbour.due = now + between_tries;
  neighbour.used = now;
  ++asking_;
  outcome.questions.push_back({ip, std::nullopt});
  return nullptr;
}

void Neighbours::hold(const Ip& ip, Held held) {
  const auto at = entries_.find(ip);
  if (at != entries_.end()) ipoib::hold(at->second.waiting, std::move(held));
}

std::deque<Held> Neighbours::learn(const Ip& ip, const HardwareAddress& hardware, bool override, bool wanted,
                                   Time now) {
  auto at = entries_.find(ip);
  if (at == entries_.end()) {
    if (!wanted || entries_.size() >= most) return {};
    at = entries_.emplace(ip, Neighbour{}).first;
    at->second.used = now;
    ++asking_;
  }
  Neighbour& neighbour = at->second;
  const bool was_asking = neighbour.state == Neighbour::State::asking;
  if (!was_asking && !override && neighbour.hardware != hardware) return {};
  if (neighbour.state != Neighbour::State::known) --asking_;
  neighbour.state = Neighbour::State::known;
  neighbour.hardware = hardware;
  neighbour.due = now + believed_for;
  return std::exchange(neighbour.waiting, {});
}

Neighbours::Outcome Neighbours::tick(Time now) {
  Outcome outcome;
  for (auto at = entries_.begin(); at != entries_.end();) {
    const auto one = at++;
    Neighbour& neighbour = one->second;
    if (neighbour.state == Neighbour::State::known) {
      if (now - neighbour.used > kept_unused) entries_.erase(one);
      continue;
    }
    if (now < neighbour.due) continue;
    if (neighbour.tries < most_tries) {
      ++neighbour.tries;
      neighbour.due = now + between_tries;
      const bool alone = neighbour.state == Neighbour::State::doubted;
      outcome.questions.push_back({one->first, alone ? std::optional(neighbour.hardware) : std::nullopt});
      continue;
    }
    if (neighbour.state == Neighbour::State::doubted) outcome.silent.push_back(neighbour.hardware);
    std::move(neighbour.waiting.begin(), neighbour.waiting.end(), std::back_inserter(outcome.undeliverable));
    entries_.erase(one);
    --asking_;
  }
  return outcome;
}

void Neighbours::clear() {
  entries_.clear();
  asking_ = 0;
}

}  // namespace softib::ipoib
