#include "memory_transport.h"

#include <algorithm>
#include <cstring>
#include <list>
#include <random>
#include <set>
#include <vector>

namespace softib::coll::test {

// A message under way; guarded by the hub's mutex.
struct Parcel {
  const void* memory = nullptr;
  u64 bytes = 0;
  bool lend = false;
  std::vector<std::byte> copy;
  enum class Fate : u8 { posted, taken, borrowed, failed } fate = Fate::posted;
};

namespace {

class MemoryTransport final : public Transport {
 public:
  MemoryTransport(std::shared_ptr<MemoryHub> hub, u32 rank, u64 seed)
      : hub_(std::move(hub)), rank_(rank), random_(seed) {}

  ~MemoryTransport() override {
    const std::lock_guard lock(hub_->mutex);
    for (const Sent& sent : sent_) sent.parcel->fate = Parcel::Fate::failed;
  }

  [[nodiscard]] const char* name() const override { return "memory"; }

  void send(Send& send) override {
    if (gone_.contains(send.peer)) return fail(send);
    auto parcel = std::make_shared<Parcel>();
    parcel->memory = send.memory;
    parcel->bytes = send.bytes;
    parcel->lend = send.lend;
    const bool at_once = chance(2);
    if (at_once) {
      const auto* bytes = static_cast<const std::byte*>(send.memory);
      parcel->copy.assign(bytes, bytes + send.bytes);
      parcel->memory = parcel->copy.data();
      parcel->lend = false;
    }
    const std::lock_guard lock(hub_->mutex);
    hub_->channels[{rank_, send.peer, send.stream}].push_back(parcel);
    if (at_once && chance(2))
      send.state = State::done;
    else
      sent_.push_back({&send, parcel, at_once});
  }

  void receive(Receive& receive) override {
    if (gone_.contains(receive.peer)) return fail(receive);
    received_.push_back(&receive);
    if (chance(3)) static_cast<void>(progress());
  }

  void release(Receive& receive) override {
    const auto loan = loans_.find(&receive);
    if (loan == loans_.end()) return;
    const std::lock_guard lock(hub_->mutex);
    if (chance(2)) {
      receive.state = State::waiting;
      returning_.push_back(&receive);
      return;
    }
    loan->second->fate = Parcel::Fate::taken;
    loans_.erase(loan);
  }

  // As queue pairs do: what comes before one can sleep is taken.
  [[nodiscard]] bool arm() override { return !progress(); }

  bool progress() override {
    bool moved = false;
    std::set<std::pair<u32, Stream>> blocked;
    const std::lock_guard lock(hub_->mutex);
    for (auto at = received_.begin(); at != received_.end();) {
      Receive& receive = **at;
      // The first receive of a stream comes first.
      if (blocked.contains({receive.peer, receive.stream}) || chance(2) || !deliver(receive)) {
        blocked.insert({receive.peer, receive.stream});
        ++at;
        continue;
      }
      at = received_.erase(at);
      moved = true;
    }
    moved |= give_back();
    std::erase_if(sent_, [&](const Sent& sent) {
      const bool over = sent.copied || sent.parcel->fate == Parcel::Fate::taken;
      if (sent.parcel->fate == Parcel::Fate::failed)
        sent.send->state = State::failed;
      else if (over && chance(2))
        sent.send->state = State::done;
      moved |= sent.send->state != State::waiting;
      return sent.send->state != State::waiting;
    });
    return moved;
  }

  void give_up(u32 peer) override {
    const std::lock_guard lock(hub_->mutex);
    gone_.insert(peer);
    for (const Sent& sent : sent_)
      if (sent.send->peer == peer) sent.parcel->fate = Parcel::Fate::failed, fail(*sent.send);
    for (Receive* receive : received_)
      if (receive->peer == peer) fail(*receive);
    std::erase_if(sent_, [peer](const Sent& sent) { return sent.send->peer == peer; });
    std::erase_if(received_, [peer](const Receive* receive) { return receive->peer == peer; });
    for (Receive* receive : returning_)
      if (receive->peer == peer) fail(*receive);
    std::erase_if(returning_, [peer](const Receive* receive) { return receive->peer == peer; });
    std::erase_if(loans_, [peer](const auto& loan) {
      if (loan.first->peer != peer) return false;
      loan.second->fate = Parcel::Fate::taken;
      return true;
    });
  }

  [[nodiscard]] std::optional<PeerFailure> broken() override { return std::nullopt; }

 private:
  struct Sent {
    Send* send;
    std::shared_ptr<Parcel> parcel;
    bool copied;
  };

  bool chance(u32 of) { return random_() % of == 0; }
  static void fail(Operation& operation) { operation.state = State::failed; }

  bool give_back() {
    return std::erase_if(returning_, [this](Receive* receive) {
             if (chance(2)) return false;
             const auto loan = loans_.find(receive);
             loan->second->fate = Parcel::Fate::taken;
             loans_.erase(loan);
             receive->state = State::done;
             return true;
           }) != 0;
  }

  bool deliver(Receive& receive) {
    const auto channel = hub_->channels.find({receive.peer, rank_, receive.stream});
    if (channel == hub_->channels.end() || channel->second.empty()) return false;
    const std::shared_ptr<Parcel> parcel = channel->second.front();
    channel->second.pop_front();
    if (channel->second.empty()) hub_->channels.erase(channel);
    if (parcel->bytes != receive.bytes || parcel->fate == Parcel::Fate::failed) {
      parcel->fate = Parcel::Fate::failed;
      fail(receive);
      return true;
    }
    receive.state = State::done;
    if (receive.lend && parcel->lend && chance(2)) {
      parcel->fate = Parcel::Fate::borrowed;
      receive.data = parcel->memory;
      loans_[&receive] = parcel;
      return true;
    }
    take(receive, *parcel);
    parcel->fate = Parcel::Fate::taken;
    return true;
  }

  void take(Receive& receive, const Parcel& parcel) {
    receive.data = receive.memory;
    if (receive.sink == nullptr) {
      if (parcel.bytes != 0) std::memcpy(receive.memory, parcel.memory, parcel.bytes);
      return;
    }
    const auto* bytes = static_cast<const std::byte*>(parcel.memory);
    for (u64 at = 0; at < parcel.bytes;) {
      const u64 length = chance(2) ? parcel.bytes - at : std::min<u64>(parcel.bytes - at, 64 * (1 + random_() % 4));
      receive.sink->take(at, bytes + at, length);
      at += length;
    }
  }

  std::shared_ptr<MemoryHub> hub_;
  u32 rank_;
  std::mt19937_64 random_;
  std::list<Sent> sent_;
  std::list<Receive*> received_;
  std::map<Receive*, std::shared_ptr<Parcel>> loans_;
  std::list<Receive*> returning_;  // loans too; their senders don't know it yet
  std::set<u32> gone_;
};

}  // namespace

std::unique_ptr<Transport> make_memory_transport(std::shared_ptr<MemoryHub> hub, u32 rank, u64 seed) {
  return std::make_unique<MemoryTransport>(std::move(hub), rank, seed);
}

}  // namespace softib::coll::test
