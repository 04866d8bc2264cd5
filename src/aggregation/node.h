// What an aggregation node does for one job: takes a segment of each child, combines them in the order of the children,
// sends the sum to its parent, or as the root back to its children; and hands down what comes from the parent. No
// sockets, no verbs and no clock: messages go in, and what is to be done with memory and queue pairs comes out.
//
// All children send segments in the order of their sequence numbers, and none sends one before it has the result of
// the segment `outstanding` before it. So a job never has more than that many segments in a node, and no message waits
// for one that comes later.
#pragma once

#include <cstddef>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "coll/innetwork/messages.h"

namespace softib::aggregation {

struct NodeJob {
  u32 job = 0;
  u32 ranks = 0;  // by which the root divides an average
  coll::innetwork::Quota quota;
  bool has_parent = false;
  std::vector<std::string> children;  // names, for people
};

// A message as it lies in the receive that it came into. `receive` names that; it goes back by Action::give_back.
struct Arrived {
  u64 receive = 0;
  std::span<const std::byte> bytes;
};

struct Action {
  enum class Kind : u8 {
    send_up,    // `bytes` to the parent
    send_down,  // to `child`
    give_back,  // `receive` can be posted again
  } kind = Kind::give_back;
  u32 child = 0;
  u64 receive = 0;
  std::span<const std::byte> bytes{};
  u32 holder = 0;  // whose memory it is: for sent()
};

class Node {
 public:
  // Bytes of memory that a node wants for what it sends.
  [[nodiscard]] static std::size_t memory_for(const coll::innetwork::Quota& quota);
  Node(NodeJob job, std::span<std::byte> memory);

  void from_child(u32 child, const Arrived& message, std::vector<Action>& actions);
  void from_parent(const Arrived& message, std::vector<Action>& actions);
  // A send of this holder's memory is over.
  void sent(u32 holder, std::vector<Action>& actions);
  // Ends the job: the children are told why, and nothing is done any more but that.
  void fail(const std::string& why, std::vector<Action>& actions);

  [[nodiscard]] const NodeJob& job() const { return job_; }
  [[nodiscard]] const std::optional<std::string>& failure() const { return failure_; }
  // All children have taken their leave.
  [[nodiscard]] bool is_over() const { return left_ == job_.children.size(); }
  [[nodiscard]] bool has_spoken(u32 child) const { return children_[child].spoken; }
  [[nodiscard]] bool has_left(u32 child) const { return children_[child].left; }
  [[nodiscard]] u64 segments() const { return handed_down_; }
  [[nodiscard]] bool is_idle() const { return sends_ == 0; }

 private:
  struct Child {
    bool spoken = false;
    bool left = false;
    u64 next = 0;  // sequence number of what it sends next
  };
  struct Contribution {
    Arrived message;
    coll::innetwork::Segment segment;
  };
  // A segment that is being collected.
  struct Slot {
    std::vector<std::optional<Contribution>> from;  // by child
    u32 missing = 0;
  };
  // Memory that sends read: one of the node's own places, or a receive from the parent.
  struct Holder {
    u32 sends = 0;
    std::optional<u64> receive;
  };

  [[nodiscard]] std::string check(const coll::innetwork::Segment& segment, u32 child) const;
  void say_bye(u32 child, std::vector<Action>& actions);
  void collect(u32 child, const Contribution& contribution, std::vector<Action>& actions);
  void combine_ready(std::vector<Action>& actions);
  [[nodiscard]] bool combine(Slot& slot, std::vector<Action>& actions);
  [[nodiscard]] std::string disagreement(const Slot& slot) const;
  [[nodiscard]] std::optional<u32> free_place() const;
  [[nodiscard]] std::span<std::byte> place(u32 holder) const;
  void send_up(u32 holder, std::span<const std::byte> bytes, std::vector<Action>& actions);
  void send_down(u32 holder, std::span<const std::byte> bytes, std::vector<Action>& actions);
  void give_back(const Arrived& message, std::vector<Action>& actions);
  [[nodiscard]] Slot& slot_of(u64 sequence) { return slots_[sequence % slots_.size()]; }

  const NodeJob job_;
  const std::span<std::byte> memory_;
  std::vector<Child> children_;
  std::vector<Slot> slots_;
  std::vector<Holder> holders_;  // the node's own places first, then one for failures, then receives
  u64 combined_ = 0;             // segments sent up, or as the root, down
  u64 handed_down_ = 0;
  std::size_t left_ = 0;
  u64 sends_ = 0;
  std::optional<std::string> failure_;
  std::vector<const void*> inputs_;  // of combine()
};

// "4096 bytes of float, sum"
[[nodiscard]] std::string text_of(const coll::innetwork::Segment& segment);

}  // namespace softib::aggregation
