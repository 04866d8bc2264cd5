#include "aggregation/node.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "coll/kernels/kernels.h"

namespace softib::aggregation {

namespace {

using coll::innetwork::most_failure_text;
using coll::innetwork::Quota;
using coll::innetwork::Segment;
using coll::innetwork::segment_header;
using coll::innetwork::SegmentKind;

// Places for sums: a send may not be known to be over when its result has come back already.
u32 places(const Quota& quota) { return 2 * quota.outstanding; }

std::size_t place_bytes(const Quota& quota) { return segment_header + (quota.segment_bytes + 63) / 64 * 64; }

constexpr std::size_t failure_bytes = segment_header + most_failure_text;

}  // namespace

std::string text_of(const Segment& segment) {
  return fmt::format("{} bytes of {}, {}", segment.bytes, coll::name_of(segment.type), coll::name_of(segment.op));
}

std::size_t Node::memory_for(const Quota& quota) {
  // The last two are for words: failure, and leave.
  return places(quota) * place_bytes(quota) + failure_bytes + segment_header;
}

Node::Node(NodeJob job, std::span<std::byte> memory)
    : job_(std::move(job)),
      memory_(memory),
      children_(job_.children.size()),
      slots_(job_.quota.outstanding),
      holders_(places(job_.quota) + 2) {
  for (Slot& slot : slots_) {
    slot.from.resize(children_.size());
    slot.missing = static_cast<u32>(children_.size());
  }
}

void Node::give_back(const Arrived& message, std::vector<Action>& actions) {
  actions.push_back({.kind = Action::Kind::give_back, .receive = message.receive});
}

// What is wrong with it; empty: nothing.
std::string Node::check(const Segment& segment, u32 child) const {
  if (segment.job != job_.job) return fmt::format("it speaks of job {}", segment.job);
  if (segment.kind != SegmentKind::contribution) return "that isn't for a parent to hear";
  if (segment.bytes > job_.quota.segment_bytes)
    return fmt::format("a segment of {} bytes where {} are allowed", segment.bytes, job_.quota.segment_bytes);
  const u64 expected = children_[child].next;
  if (segment.sequence != expected) return fmt::format("segment {} where {} is next", segment.sequence, expected);
  if (segment.sequence >= handed_down_ + job_.quota.outstanding)
    return fmt::format("more than {} segments under way", job_.quota.outstanding);
  return {};
}

void Node::from_child(u32 child, const Arrived& message, std::vector<Action>& actions) {
  if (failure_ || children_[child].left) return give_back(message, actions);
  const std::optional<Segment> segment = coll::innetwork::parse_segment(message.bytes);
  children_[child].spoken = true;
  if (segment && segment->job == job_.job && segment->kind == SegmentKind::hello) return give_back(message, actions);
  if (segment && segment->job == job_.job && segment->kind == SegmentKind::bye) {
    give_back(message, actions);
    return say_bye(child, actions);
  }
  if (left_ != 0 && segment) {
    give_back(message, actions);
    const auto gone = std::find_if(children_.begin(), children_.end(), [](const Child& one) { return one.left; });
    return fail(fmt::format("{} has left", job_.children[static_cast<std::size_t>(gone - children_.begin())]), actions);
  }
  const std::string wrong = segment ? check(*segment, child) : "that is no segment";
  if (!wrong.empty()) {
    give_back(message, actions);
    return fail(fmt::format("{}: {}", job_.children[child], wrong), actions);
  }
  ++children_[child].next;
  collect(child, {message, *segment}, actions);
}

// In the middle of something it is the end of the job.
void Node::say_bye(u32 child, std::vector<Action>& actions) {
  Child& one = children_[child];
  one.left = true;
  ++left_;
  const bool busy =
      std::any_of(children_.begin(), children_.end(), [&](const Child& other) { return other.next != handed_down_; });
  if (busy && !is_over()) return fail(fmt::format("{} has left", job_.children[child]), actions);
  if (!is_over() || !job_.has_parent) return;
  const auto holder = static_cast<u32>(places(job_.quota) + 1);
  Segment words{.kind = SegmentKind::bye, .job = job_.job};
  const std::span<std::byte> to = memory_.last(segment_header);
  coll::innetwork::emit(words, to.data());
  send_up(holder, to, actions);
}

void Node::collect(u32 child, const Contribution& contribution, std::vector<Action>& actions) {
  Slot& slot = slot_of(contribution.segment.sequence);
  slot.from[child] = contribution;
  --slot.missing;
  combine_ready(actions);
}

// In order, so that parents and children see no other.
void Node::combine_ready(std::vector<Action>& actions) {
  while (!failure_) {
    Slot& slot = slot_of(combined_);
    if (slot.missing != 0 || !combine(slot, actions)) return;
    for (auto& from : slot.from) from.reset();
    slot.missing = static_cast<u32>(children_.size());
    ++combined_;
    if (!job_.has_parent) ++handed_down_;
  }
}

std::string Node::disagreement(const Slot& slot) const {
  const Segment& first = slot.from[0]->segment;
  for (u32 child = 1; child < slot.from.size(); ++child) {
    const Segment& other = slot.from[child]->segment;
    if (first.type == other.type && first.op == other.op && first.bytes == other.bytes) continue;
    return fmt::format("calls don't fit together: {} gives {}, {} gives {}", job_.children[0], text_of(first),
                       job_.children[child], text_of(other));
  }
  return {};
}

// False: no place is free, or the children disagree.
bool Node::combine(Slot& slot, std::vector<Action>& actions) {
  if (const std::string wrong = disagreement(slot); !wrong.empty()) {
    fail(wrong, actions);
    return false;
  }
  const std::optional<u32> holder = free_place();
  if (!holder) return false;
  Segment sum = slot.from[0]->segment;
  inputs_.clear();
  for (const auto& from : slot.from)
    if (from->segment.gives) inputs_.push_back(from->message.bytes.data() + segment_header);
  sum.kind = job_.has_parent ? SegmentKind::contribution : SegmentKind::result;
  sum.gives = !inputs_.empty();
  if (!job_.has_parent && !sum.gives) {
    fail("nobody gives anything", actions);
    return false;
  }
  const std::span<std::byte> to = place(*holder);
  coll::innetwork::emit(sum, to.data());
  if (sum.data_bytes() != 0)
    coll::kernels::reduce(sum.type, sum.op, to.data() + segment_header, inputs_, sum.bytes / coll::size_of(sum.type),
                          job_.has_parent ? 1 : job_.ranks, coll::kernels::Stores::cached);
  const std::span<const std::byte> message = to.first(segment_header + sum.data_bytes());
  job_.has_parent ? send_up(*holder, message, actions) : send_down(*holder, message, actions);
  for (const auto& from : slot.from) give_back(from->message, actions);
  return true;
}

void Node::from_parent(const Arrived& message, std::vector<Action>& actions) {
  if (failure_) return give_back(message, actions);
  const std::optional<Segment> segment = coll::innetwork::parse_segment(message.bytes);
  if (segment && segment->job == job_.job && segment->kind == SegmentKind::failure) {
    const auto text = message.bytes.subspan(segment_header);
    const std::string why(reinterpret_cast<const char*>(text.data()), text.size());
    give_back(message, actions);
    return fail(why, actions);
  }
  const bool fits = segment && segment->job == job_.job && segment->kind == SegmentKind::result &&
                    segment->sequence == handed_down_ && handed_down_ < combined_;
  if (!fits) {
    give_back(message, actions);
    return fail("the parent node sent what nobody waits for", actions);
  }
  ++handed_down_;
  const auto free = std::find_if(holders_.begin() + places(job_.quota) + 2, holders_.end(),
                                 [](const Holder& holder) { return holder.sends == 0; });
  const auto holder = static_cast<u32>(free - holders_.begin());
  if (free == holders_.end()) holders_.emplace_back();
  holders_[holder].receive = message.receive;
  send_down(holder, message.bytes, actions);
}

std::optional<u32> Node::free_place() const {
  for (u32 holder = 0; holder < places(job_.quota); ++holder)
    if (holders_[holder].sends == 0) return holder;
  return std::nullopt;
}

std::span<std::byte> Node::place(u32 holder) const {
  return memory_.subspan(holder * place_bytes(job_.quota), place_bytes(job_.quota));
}

void Node::send_up(u32 holder, std::span<const std::byte> bytes, std::vector<Action>& actions) {
  ++holders_[holder].sends;
  ++sends_;
  actions.push_back({.kind = Action::Kind::send_up, .bytes = bytes, .holder = holder});
}

void Node::send_down(u32 holder, std::span<const std::byte> bytes, std::vector<Action>& actions) {
  for (u32 child = 0; child < children_.size(); ++child) {
    if (children_[child].left) continue;
    ++holders_[holder].sends;
    ++sends_;
    actions.push_back({.kind = Action::Kind::send_down, .child = child, .bytes = bytes, .holder = holder});
  }
}

void Node::sent(u32 holder, std::vector<Action>& actions) {
  Holder& one = holders_[holder];
  --sends_;
  if (--one.sends != 0) return;
  if (one.receive) give_back({*std::exchange(one.receive, std::nullopt), {}}, actions);
  combine_ready(actions);
}

void Node::fail(const std::string& why, std::vector<Action>& actions) {
  if (failure_) return;
  failure_ = why;
  for (Slot& slot : slots_)
    for (auto& from : slot.from)
      if (from) give_back(std::exchange(from, std::nullopt)->message, actions);
  const std::string text = why.substr(0, most_failure_text);
  Segment words{.kind = SegmentKind::failure, .job = job_.job, .bytes = static_cast<u32>(text.size())};
  const std::span<std::byte> to = memory_.subspan(places(job_.quota) * place_bytes(job_.quota), failure_bytes);
  coll::innetwork::emit(words, to.data());
  std::memcpy(to.data() + segment_header, text.data(), text.size());
  send_down(places(job_.quota), to.first(segment_header + text.size()), actions);
}

}  // namespace softib::aggregation
