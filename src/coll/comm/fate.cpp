#include "coll/comm/fate.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace softib::coll {

std::string text_of(const Member& member) { return fmt::format("{} (process {})", name_of(member), member.process); }

std::optional<Error> Fate::error() const {
  if (!has_ended()) return std::nullopt;
  const std::lock_guard lock(mutex_);
  return error_;
}

void Fate::end(const Error& error) {
  const std::lock_guard lock(mutex_);
  if (error_) return;
  error_ = error;
  ended_.store(true, std::memory_order_release);
  bootstrap_.abort(error.text);
}

void Fate::abort(const std::string& why) {
  end({Code::invalid_usage, fmt::format("{} aborted the communicator: {}", who(rank_), why)});
}

std::optional<Error> Fate::look() {
  const std::lock_guard lock(mutex_);
  while (const std::optional<Bootstrap::News> news = bootstrap_.news()) {
    switch (news->kind) {
      case Bootstrap::News::Kind::ended:
        dead_.insert(news->rank);
        return Error{Code::remote_error, news->text.empty() ? fmt::format("{} has ended", who(news->rank))
                                                            : unreachable(who(news->rank), news->text)};
      case Bootstrap::News::Kind::aborted:
        told_ = true;
        return Error{Code::remote_error, news->text};
      case Bootstrap::News::Kind::blames:
        asked_ = true;
        waits_[news->rank].insert(news->waits_for);
        break;
      case Bootstrap::News::Kind::says:
        words_.emplace_back(news->rank, news->text);
        break;
    }
  }
  return std::nullopt;
}

void Fate::tell(const std::vector<u32>& awaited, u64 collective) {
  const std::lock_guard lock(mutex_);
  for (const u32 peer : awaited) bootstrap_.blame(peer, collective);
}

std::vector<u32> Fate::culprits(const std::vector<u32>& awaited) const {
  std::vector<u32> found;
  std::set<u32> seen{rank_};
  std::vector<u32> next = awaited;
  while (!next.empty()) {
    const u32 rank = next.back();
    next.pop_back();
    if (!seen.insert(rank).second) continue;
    const auto waits = waits_.find(rank);
    if (waits == waits_.end())
      found.push_back(rank);
    else
      next.insert(next.end(), waits->second.begin(), waits->second.end());
  }
  std::sort(found.begin(), found.end());
  return found;
}

}  // namespace softib::coll
