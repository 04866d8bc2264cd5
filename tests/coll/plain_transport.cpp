#include "plain_transport.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace softib::coll::test {

namespace {

class PlainTransport final : public Transport {
 public:
  PlainTransport(std::shared_ptr<PlainHub::Shared> shared, u32 rank) : shared_(std::move(shared)), rank_(rank) {}

  [[nodiscard]] const char* name() const override { return "plain"; }

  void send(Send& send) override {
    send.state = given_up_.contains(send.peer) ? State::failed : State::waiting;
    if (send.state == State::failed) return;
    const std::lock_guard guard(shared_->lock);
    shared_->offers[{rank_, send.peer, send.stream}].push_back({&send, send.memory});
    sends_.insert(&send);
  }

  void receive(Receive& receive) override {
    receive.state = given_up_.contains(receive.peer) ? State::failed : State::waiting;
    if (receive.state == State::waiting) receives_[{receive.peer, receive.stream}].push_back(&receive);
  }

  void release(Receive& receive) override { (void)std::exchange(receive.data, nullptr); }

  bool progress() override {
    const std::lock_guard guard(shared_->lock);
    bool moved = false;
    auto& taken = shared_->taken[rank_];
    for (; !taken.empty(); taken.pop_front()) {
      if (sends_.erase(taken.front()) != 0) taken.front()->state = State::done;
      moved = true;
    }
    for (auto& [key, waiting] : receives_) moved |= take(key, waiting);
    std::erase_if(receives_, [](const auto& entry) { return entry.second.empty(); });
    return moved;
  }

  void give_up(u32 peer) override {
    given_up_.insert(peer);
    const std::lock_guard guard(shared_->lock);
    for (auto& [key, offers] : shared_->offers)
      if (std::get<0>(key) == rank_ && std::get<1>(key) == peer) offers.clear();
    std::erase_if(sends_, [peer](Send* send) {
      if (send->peer == peer) send->state = State::failed;
      return send->peer == peer;
    });
    for (auto& [key, waiting] : receives_) {
      if (key.first != peer) continue;
      for (Receive* receive : std::exchange(waiting, {})) receive->state = State::failed;
    }
  }

  [[nodiscard]] std::optional<PeerFailure> broken() override { return std::nullopt; }

 private:
  bool take(const std::pair<u32, Stream>& key, std::deque<Receive*>& waiting) {
    auto offers = shared_->offers.find({key.first, rank_, key.second});
    if (offers == shared_->offers.end()) return false;
    bool moved = false;
    for (; !waiting.empty() && !offers->second.empty(); waiting.pop_front(), offers->second.pop_front()) {
      take(*waiting.front(), offers->second.front().memory);
      shared_->taken[key.first].push_back(offers->second.front().send);
      moved = true;
    }
    return moved;
  }

  static void take(Receive& receive, const void* from) {
    const auto* bytes = static_cast<const std::byte*>(from);
    constexpr u64 piece = 4096;
    if (receive.sink)
      for (u64 at = 0; at < receive.bytes; at += piece)
        receive.sink->take(at, bytes + at, std::min(piece, receive.bytes - at));
    else if (receive.bytes > 0)
      std::memcpy(receive.memory, from, receive.bytes);
    receive.data = receive.memory;
    receive.state = State::done;
  }

  std::shared_ptr<PlainHub::Shared> shared_;
  u32 rank_;
  std::set<u32> given_up_;
  std::set<Send*> sends_;
  std::map<std::pair<u32, Stream>, std::deque<Receive*>> receives_;
};

}  // namespace

std::unique_ptr<Transport> PlainHub::join(u32 rank) { return std::make_unique<PlainTransport>(shared_, rank); }

}  // namespace softib::coll::test
