// What a network brings to aggregation nodes, their manager and the programs that use them. Commands in a row:
//
//   +---------+---------+---------+----------------------+
//   | what 1  | whom 1  | size 1  |   bytes              |
//   +---------+---------+---------+----------------------+
//
//   what: 0 words of management; 1 a datagram for a mailbox; 2 a message of a child, as it is; 3 a segment of a child,
//   4 one of the parent: kind, type, op, gives, and sequence, bytes / 16, then rubbish as data; 5 a send is over; 6
//   time
#include <algorithm>
#include <map>
#include <vector>

#include "../require.h"
#include "aggregation/node.h"
#include "coll/innetwork/mailbox.h"

namespace {

using namespace softib;
using namespace softib::aggregation;
using namespace softib::coll::innetwork;
using coll::Bytes;
using fuzz::require;

constexpr u32 job = 1;
constexpr u32 children = 3;
constexpr Quota quota{512, 2};

class Player {
 public:
  Player() : memory_(Node::memory_for(quota)), node_({job, 3, quota, true, {"a", "b", "c"}}, memory_), mailbox_(1) {}

  void play(u8 what, u8 whom, std::span<const std::byte> bytes) {
    if (what == 0) read_words(bytes);
    if (what == 1) hear(whom, bytes);
    if (what == 2) arrive(whom % children, Bytes(bytes.begin(), bytes.end()));
    if (what == 3) arrive(whom % children, segment_of(bytes));
    if (what == 4) arrive(children, segment_of(bytes));
    if (what == 5) end_send(whom);
    if (what == 6) mailbox_.on_time(now_ += std::chrono::milliseconds(whom));
  }

  // Sends end, and with them everything that holds receives of a job that failed.
  void end() {
    while (!sends_.empty()) end_send(0);
    if (node_.failure()) require(receives_.empty());
  }

 private:
  static void read_words(std::span<const std::byte> bytes) {
    if (const auto words = parse_words(bytes)) require(parse_words(emit(*words)) == words);
  }

  void hear(u8 whom, std::span<const std::byte> bytes) {
    mailbox_.receive({whom, 1}, bytes, now_);
    while (const auto event = mailbox_.next_event())
      if (event->kind == Mailbox::Event::Kind::question)
        mailbox_.answer(event->peer, event->transaction, event->message, now_);
    while (mailbox_.next_datagram()) {
    }
  }

  static Bytes segment_of(std::span<const std::byte> bytes) {
    const auto at = [&](std::size_t i) { return i < bytes.size() ? static_cast<u8>(bytes[i]) : u8{0}; };
    Segment segment{.kind = static_cast<SegmentKind>(at(0)),
                    .type = static_cast<coll::DataType>(at(1)),
                    .op = static_cast<coll::Op>(at(2)),
                    .gives = at(3) % 2 == 0,
                    .job = job,
                    .bytes = at(5) * 16U,
                    .sequence = at(4)};
    Bytes message(segment_header + segment.data_bytes());
    emit(segment, message.data());
    for (std::size_t i = segment_header; i < message.size(); ++i) message[i] = static_cast<std::byte>(at(6 + i % 8));
    return message;
  }

  void arrive(u32 from, Bytes message) {
    const u64 receive = next_++;
    const Bytes& kept = receives_[receive] = std::move(message);
    std::vector<Action> actions;
    from == children ? node_.from_parent({receive, kept}, actions) : node_.from_child(from, {receive, kept}, actions);
    act(actions);
  }

  void act(const std::vector<Action>& actions) {
    for (const Action& action : actions) {
      if (action.kind == Action::Kind::give_back) {
        require(receives_.erase(action.receive) == 1);
        continue;
      }
      require(action.kind == Action::Kind::send_up || action.child < children);
      require(parse_segment(action.bytes).has_value());  // reads what is sent: it must be there
      sends_.push_back(action.holder);
    }
  }

  void end_send(u8 which) {
    if (sends_.empty()) return;
    std::swap(sends_[which % sends_.size()], sends_.back());
    const u32 holder = sends_.back();
    sends_.pop_back();
    std::vector<Action> actions;
    node_.sent(holder, actions);
    act(actions);
  }

  std::vector<std::byte> memory_;
  Node node_;
  Mailbox mailbox_;
  Mailbox::Time now_{};
  std::map<u64, Bytes> receives_;
  std::vector<u32> sends_;
  u64 next_ = 1;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  Player player;
  for (std::span<const unsigned char> left(data, size); left.size() >= 3;) {
    const std::size_t length = std::min<std::size_t>(left[2], left.size() - 3);
    player.play(left[0], left[1], std::as_bytes(left.subspan(3, length)));
    left = left.subspan(3 + length);
  }
  player.end();
  return 0;
}
