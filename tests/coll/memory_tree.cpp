#include "memory_tree.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <random>
#include <utility>

#include "coll/kernels/kernels.h"

namespace softib::coll::test {

namespace {

class MemoryTree final : public Tree {
 public:
  MemoryTree(std::shared_ptr<MemoryTreeHub> hub, std::vector<u32> members, u32 rank, u32 ranks, u64 seed)
      : hub_(std::move(hub)), members_(std::move(members)), ranks_(ranks), random_(seed) {
    place_ = static_cast<std::size_t>(std::find(members_.begin(), members_.end(), rank) - members_.begin());
  }

  void expect(Stream stream) override { queue_.push_back({next_++, stream}); }

  void begin(Aggregation& aggregation) override {
    const auto entry = std::find_if(queue_.begin(), queue_.end(), [&](const Entry& one) {
      return one.stream == aggregation.stream && one.aggregation == nullptr;
    });
    if (given_up_ || entry == queue_.end())
      aggregation.state = State::failed;
    else
      entry->aggregation = &aggregation;
  }

  // Seldom, so that most of it happens in arm() where a member sleeps.
  bool progress() override { return random_() % 8 == 0 && move(); }

  void look(std::chrono::steady_clock::time_point) override {}
  void give_up() override {
    given_up_ = true;
    for (const Entry& entry : std::exchange(queue_, {}))
      if (entry.aggregation != nullptr) entry.aggregation->state = State::failed;
  }
  [[nodiscard]] Error failure() const override { return {Code::remote_error, "the tree was given up"}; }
  [[nodiscard]] std::span<const u32> members() const override { return members_; }
  [[nodiscard]] int descriptor() const override { return -1; }
  [[nodiscard]] bool arm() override { return !move(); }

 private:
  struct Entry {
    u64 number = 0;
    Stream stream = 0;
    Aggregation* aggregation = nullptr;
    bool given = false;
  };

  bool move() {
    bool moved = false;
    for (Entry& entry : queue_) {
      if (entry.aggregation == nullptr) break;  // what comes later waits for it
      if (!std::exchange(entry.given, true)) {
        give(entry);
        moved = true;
      }
    }
    while (!queue_.empty() && queue_.front().given && take(queue_.front())) {
      queue_.pop_front();
      moved = true;
    }
    return moved;
  }

  void give(const Entry& entry) {
    const Aggregation& aggregation = *entry.aggregation;
    const std::lock_guard lock(hub_->mutex);
    MemoryTreeHub::Meeting& meeting = hub_->meetings[entry.number];
    if (meeting.given.empty()) {
      meeting.given.resize(members_.size());
      meeting.gives.resize(members_.size());
      meeting.missing = meeting.unread = static_cast<u32>(members_.size());
    }
    meeting.gives[place_] = aggregation.gives;
    if (aggregation.gives) meeting.given[place_].assign(aggregation.from, aggregation.from + aggregation.bytes);
    --meeting.missing;
  }

  // False: not all have come.
  bool take(const Entry& entry) {
    const Aggregation& aggregation = *entry.aggregation;
    const std::lock_guard lock(hub_->mutex);
    MemoryTreeHub::Meeting& meeting = hub_->meetings[entry.number];
    if (meeting.missing != 0) return false;
    std::vector<const void*> inputs;
    for (std::size_t i = 0; i < members_.size(); ++i)
      if (meeting.gives[i]) inputs.push_back(meeting.given[i].data());
    if (aggregation.bytes != 0)
      kernels::reduce(aggregation.type, aggregation.op, aggregation.to, inputs,
                      aggregation.bytes / size_of(aggregation.type), ranks_);
    if (--meeting.unread == 0) hub_->meetings.erase(entry.number);
    entry.aggregation->state = State::done;
    return true;
  }

  const std::shared_ptr<MemoryTreeHub> hub_;
  const std::vector<u32> members_;
  const u32 ranks_;
  std::size_t place_ = 0;
  std::mt19937_64 random_;
  std::deque<Entry> queue_;
  u64 next_ = 0;
  bool given_up_ = false;
};

}  // namespace

std::unique_ptr<Tree> make_memory_tree(std::shared_ptr<MemoryTreeHub> hub, std::vector<u32> members, u32 rank,
                                       u32 ranks, u64 seed) {
  return std::make_unique<MemoryTree>(std::move(hub), std::move(members), rank, ranks, seed);
}

}  // namespace softib::coll::test
