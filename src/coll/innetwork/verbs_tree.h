// A member's end of an aggregation tree: one queue pair to the node of its switch. Segments are copied into registered
// slots, and results out of them; the order of the queue pair is the order of the segments.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "coll/innetwork/pair.h"
#include "coll/innetwork/tree.h"
#include "coll/transport/verbs/devices.h"

namespace softib::coll::innetwork {

// More than any node allows are not used.
inline constexpr u32 most_outstanding = 64;

class VerbsTree final : public Tree {
 public:
  // With a queue pair on the first InfiniBand port of those that may be used.
  [[nodiscard]] static Outcome<std::unique_ptr<VerbsTree>> make(const Environment& environment, i32 rank);
  ~VerbsTree() override;

  struct Place {
    u32 job = 0;
    Quota quota;
    End node;
    std::string name;          // of the node
    std::vector<u32> members;  // ranks
  };
  [[nodiscard]] Outcome<void> connect(const Place& place);
  [[nodiscard]] End end() const { return pair_.end(); }
  [[nodiscard]] const OpenPort& port() const { return port_; }
  [[nodiscard]] const PairSettings& settings() const { return settings_; }

  void expect(Stream stream) override { queue_.push_back({stream}); }
  void begin(Aggregation& aggregation) override;
  bool progress() override;
  void look(std::chrono::steady_clock::time_point now) override;
  void give_up() override;
  [[nodiscard]] Error failure() const override;
  [[nodiscard]] std::span<const u32> members() const override { return place_.members; }
  [[nodiscard]] int descriptor() const override { return completions_.descriptor(); }
  [[nodiscard]] bool arm() override;

 private:
  struct Entry {
    Stream stream = 0;
    Aggregation* aggregation = nullptr;
    u64 sent = 0;
    u64 received = 0;
  };

  explicit VerbsTree(i32 rank) : rank_(rank) {}
  [[nodiscard]] u32 slot_bytes() const { return segment_header + place_.quota.segment_bytes; }
  [[nodiscard]] std::span<std::byte> send_slot(u64 sequence) const;
  [[nodiscard]] std::span<std::byte> receive_slot(u32 number) const;
  [[nodiscard]] bool post_receive(u32 number);
  [[nodiscard]] bool may_send() const;
  bool pump();
  [[nodiscard]] bool send_segment(Entry& entry);
  void complete(const ibv_wc& completion);
  void take(std::span<const std::byte> message);
  void take_result(const Segment& segment, std::span<const std::byte> data);
  void say(SegmentKind kind);
  [[nodiscard]] bool settle_words();
  void fail(std::string why);

  i32 rank_;
  verbs::Devices devices_;
  OpenPort port_;
  PairSettings settings_;
  Place place_;
  Region region_;  // sends, then receives, then a word
  Completions completions_;
  Pair pair_;

  std::deque<Entry> queue_;  // the oldest first
  std::size_t sending_ = 0;  // the first one of which something is to be sent
  u64 next_ = 0;             // segment to send
  u64 results_ = 0;          // that have come
  u64 sends_over_ = 0;       // of segments
  u32 words_ = 0;            // sent, and not known to be over
  bool connected_ = false;
  bool probing_ = false;
  u64 moves_ = 0;
  u64 moves_seen_ = 0;
  std::chrono::steady_clock::time_point moved_at_{};
  std::optional<std::string> failure_;
};

}  // namespace softib::coll::innetwork
