#include "ipoib/paths.h"

namespace softib::ipoib {

namespace {

constexpr milliseconds between_queries{1000};
constexpr std::size_t most_paths = 16'384;

}  // namespace

ibv_ah* Paths::find(const GidBytes& gid) {
  const auto at = paths_.find(gid);
  if (at != paths_.end() && at->second.handle) [[likely]]
    return at->second.handle.get();
  if (at == paths_.end() && paths_.size() >= most_paths) return nullptr;
  Path& path = at == paths_.end() ? paths_[gid] : at->second;
  if (!path.asking && Clock::now() >= path.not_before) ask(gid, path);
  return nullptr;
}

void Paths::hold(Frame frame) {
  const auto at = paths_.find(frame.to.gid);
  if (at != paths_.end() && at->second.asking) ipoib::hold(at->second.waiting, std::move(frame));
}

void Paths::ask(const GidBytes& gid, Path& path) {
  path.asking = true;
  ask_path(client_, port_.gid(), gid, pkey_, [this, gid, epoch = epoch_](const Result<PathAnswer>& answer) {
    if (epoch == epoch_) settle(gid, answer);
  });
}

void Paths::settle(const GidBytes& gid, const Result<PathAnswer>& answer) {
  const auto at = paths_.find(gid);
  if (at == paths_.end()) return;
  Path& path = at->second;
  path.asking = false;
  auto handle = answer ? port_.address_handle(answer->route) : Result<AddressHandle>(fail(answer.error()));
  const std::deque<Frame> waiting = std::exchange(path.waiting, {});
  if (!handle) {
    path.not_before = Clock::now() + between_queries;
    return;
  }
  path.handle = std::move(*handle);
  path.answer = *answer;
  ibv_ah* const raw = path.handle.get();
  for (const Frame& frame : waiting) deliver_(target_of(raw, frame.to), frame);
}

void Paths::forget(const GidBytes& gid) {
  auto one = paths_.extract(gid);
  if (!one.empty()) graveyard_.bury(std::move(one.mapped().handle));
}

void Paths::clear() {
  ++epoch_;
  for (auto& [gid, path] : paths_) graveyard_.bury(std::move(path.handle));
  paths_.clear();
}

const PathAnswer* Paths::known(const GidBytes& gid) const {
  const auto at = paths_.find(gid);
  return at == paths_.end() || !at->second.handle ? nullptr : &at->second.answer;
}

}  // namespace softib::ipoib
