#include "coll/execute/executor.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "coll/kernels/kernels.h"

namespace softib::coll {

namespace {

// Streams: the collective's number, and which of its lanes. The last one is for the comparison of calls. Messages of
// send and receive have one stream of their own, as not all ranks count them.
constexpr u32 lane_bits = 10;
constexpr u32 check_lane = (1U << lane_bits) - 1;
constexpr Stream message_stream = u64{1} << 63;

// Buffers of so many bytes are lent to transports, which might register them.
constexpr u64 lent_least = u64{32} << 10;

// Scratch of so many bytes stays with its run.
constexpr u64 kept_scratch = 4096;

// Transports that nothing waits for still want to be asked now and then: for what comes early.
constexpr u32 rounds_between_idle = 64;

Stream stream_of(const Run& run, u32 lane) { return run.collective << lane_bits | lane; }

const std::byte* readable(const Run& run, const LaneRun& lane, const Span& span) {
  const std::byte* base = span.buffer == Buffer::input    ? run.input
                          : span.buffer == Buffer::output ? run.output
                                                          : lane.scratch;
  return base + span.offset * size_of(run.work.type);
}

std::byte* writable(const Run& run, const LaneRun& lane, const Span& span) {
  return const_cast<std::byte*>(readable(run, lane, span));
}

template <typename Body>
void for_each_lent(const Run& run, Body&& body) {
  const u64 size = size_of(run.work.type);
  const auto part = [&](const std::byte* base, const Stretch& stretch) {
    const u64 bytes = stretch.count() * size;
    if (bytes >= lent_least) body(base + stretch.begin * size, bytes);
  };
  part(run.input, run.plan->input);
  part(run.output, run.plan->output);
}

void reset(Operation& operation, u32 peer, Stream stream, u64 bytes, bool lend, u32 ordinal) {
  operation.peer = peer;
  operation.stream = stream;
  operation.bytes = bytes;
  operation.lend = lend;
  operation.ordinal = ordinal;
  operation.state = State::waiting;
  operation.next = nullptr;
  operation.progress = 0;
  operation.token = 0;
}

void prepare_send(Slot& slot, u32 peer, Stream stream, const void* memory, u64 bytes, bool lend, u32 ordinal) {
  slot.kind = Slot::Kind::send;
  reset(slot.send, peer, stream, bytes, lend, ordinal);
  slot.send.memory = memory;
  slot.send.push = false;
}

void prepare_receive(Slot& slot, u32 peer, Stream stream, void* memory, u64 bytes, bool lend, u32 ordinal) {
  slot.kind = Slot::Kind::receive;
  reset(slot.receive, peer, stream, bytes, lend, ordinal);
  slot.receive.memory = memory;
  slot.receive.sink = nullptr;
  slot.receive.data = nullptr;
}

// Short messages are over before the vector code has begun.
constexpr u64 short_bytes = 64;

template <typename T>
void add_short(std::byte* out, const std::byte* a, const std::byte* b, u64 bytes) {
  for (u64 at = 0; at < bytes; at += sizeof(T)) {
    T x;
    T y;
    std::memcpy(&x, a + at, sizeof x);
    std::memcpy(&y, b + at, sizeof y);
    x = static_cast<T>(x + y);
    std::memcpy(out + at, &x, sizeof x);
  }
}

// False: not of a kind that is done here.
bool sum_short(DataType type, std::byte* out, const std::byte* a, const std::byte* b, u64 bytes) {
  switch (type) {
    case DataType::int32:
    case DataType::uint32:
      return add_short<u32>(out, a, b, bytes), true;
    case DataType::int64:
    case DataType::uint64:
      return add_short<u64>(out, a, b, bytes), true;
    case DataType::float32:
      return add_short<float>(out, a, b, bytes), true;
    case DataType::float64:
      return add_short<double>(out, a, b, bytes), true;
    default:
      return false;
  }
}

}  // namespace

void ReduceSink::take(u64 offset, const void* data, u64 bytes) {
  if (bytes <= short_bytes && op == Op::sum &&
      sum_short(type, out + offset, static_cast<const std::byte*>(data), own + offset, bytes))
    return;
  const std::array<const void*, 2> inputs{data, own + offset};
  kernels::reduce(type, op, out + offset, inputs, bytes / size_of(type), ranks);
}

void Routes::hint_memory(const void* memory, u64 bytes) const {
  for (const auto& transport : transports) transport->hint_memory(memory, bytes);
}

void Routes::forget_memory(const void* memory, u64 bytes) const {
  for (const auto& transport : transports) transport->forget_memory(memory, bytes);
}

void* HintedMemory::allocate(u64 bytes) {
  void* memory = source_.allocate(bytes);
  if (memory != nullptr) routes_.hint_memory(memory, bytes);
  return memory;
}

void HintedMemory::release(void* memory, u64 bytes) {
  routes_.forget_memory(memory, bytes);
  source_.release(memory, bytes);
}

Executor::Executor(Routes& routes, MemorySource& memory, u32 ranks, u32 rank)
    : routes_(routes),
      scratch_(memory),
      ranks_(ranks),
      rank_(rank),
      pending_(routes.transports.size()),
      sent_(ranks),
      received_(ranks) {
  active_.reserve(64);
}

Executor::~Executor() { drop_all(); }

std::unique_ptr<Run> Executor::idle_run(Plan& plan) {
  if (!plan.idle.empty()) {
    std::unique_ptr<Run> run = std::move(plan.idle.back());
    plan.idle.pop_back();
    return run;
  }
  auto run = std::make_unique<Run>();
  run->plan = &plan;
  run->places.resize(plan.window);
  for (LaneRun& place : run->places) {
    place.slots.resize(plan.steps);
    place.waiting.reserve(plan.steps);
    place.lent.reserve(plan.steps);
  }
  return run;
}

// What a premultiplied sum begins with: the input times the factor, in the output where it has room for it.
bool Executor::scale_input(Run& run) {
  const Work& work = run.work;
  if (work.op != Op::premul_sum) return true;
  const u64 count = work.scaled_count;
  std::byte* target = static_cast<std::byte*>(work.scaled);
  if (target == nullptr && count != 0) {
    run.scaled_bytes = count * size_of(work.type);
    run.scaled = scratch_.take(run.scaled_bytes);
    if (run.scaled == nullptr) return false;
    target = run.scaled;
  }
  kernels::scale(work.factor, target, work.input, count);
  run.input = target;
  return true;
}

bool Executor::take_scratch(Run& run) {
  run.scratch_bytes = run.plan->scratch * size_of(run.work.type);
  if (run.scratch_bytes == 0) return true;
  for (LaneRun& place : run.places) {
    if (run.scratch_bytes > kept_scratch) {
      place.scratch = scratch_.take(run.scratch_bytes);
      if (place.scratch == nullptr) return false;
    } else if (place.scratch == nullptr) {
      place.kept.resize(run.scratch_bytes);
      place.scratch = place.kept.data();
    }
  }
  return true;
}

// Schedules cut buffers into many messages; transports are told of the whole, so that they register it once.
void Executor::lend_buffers(Run& run) {
  run.lends = true;
  for_each_lent(run, [this](const void* memory, u64 bytes) {
    for (const auto& transport : routes_.transports) transport->borrow_memory(memory, bytes);
  });
}

void Executor::take_buffers_back(Run& run) {
  if (!std::exchange(run.lends, false)) return;
  for_each_lent(run, [this](const void* memory, u64 bytes) {
    for (const auto& transport : routes_.transports) transport->give_memory_back(memory, bytes);
  });
}

u64 Executor::start(Plan& plan, const Work& work, u64 collective, const CallDigest* checked) {
  std::unique_ptr<Run> owned = idle_run(plan);
  Run& run = *owned;
  run.work = work;
  run.input = static_cast<const std::byte*>(work.input);
  run.output = static_cast<std::byte*>(work.output);
  run.collective = collective;
  run.next_lane = 0;
  run.places_busy = 0;
  run.checking = checked != nullptr && ranks_ > 1;
  ++plan.active;
  if (!take_scratch(run) || !scale_input(run)) {
    release(std::move(owned));
    return 0;
  }
  lend_buffers(run);
  run.number = next_number_++;
  active_.push_back(std::move(owned));
  for (const u32 lane : plan.aggregating) routes_.tree->expect(stream_of(run, lane));
  if (run.checking) {
    run.mine = *checked;
    begin_check(run);
  } else {
    begin_lanes(run);
  }
  if (advance(run)) finish(active_.size() - 1);
  return run.number;
}

u64 Executor::start_messages(std::span<const DirectMessage> messages) {
  std::unique_ptr<Run> owned;
  if (idle_messages_.empty()) {
    owned = std::make_unique<Run>();
    owned->places.resize(1);
  } else {
    owned = std::move(idle_messages_.back());
    idle_messages_.pop_back();
  }
  Run& run = *owned;
  run.number = next_number_++;
  run.wanted = true;
  run.places_busy = 1;
  LaneRun& lane = run.places[0];
  if (lane.slots.size() < messages.size()) lane.slots.resize(messages.size());
  const auto sends = std::count_if(messages.begin(), messages.end(), [](const auto& it) { return it.sends; });
  const bool push = 2 * static_cast<std::size_t>(sends) <= messages.size();
  active_.push_back(std::move(owned));
  for (u32 i = 0; i < messages.size(); ++i) {
    const DirectMessage& message = messages[i];
    Slot& slot = lane.slots[i];
    if (message.sends) {
      prepare_send(slot, message.peer, message_stream, message.memory, message.bytes, false, ++sent_[message.peer]);
      slot.send.push = push;
      begin_send(slot);
    } else {
      prepare_receive(slot, message.peer, message_stream, message.memory, message.bytes, false,
                      ++received_[message.peer]);
      begin_receive(slot);
    }
    lane.waiting.push_back(i);
  }
  const u64 number = run.number;
  if (advance(run)) finish(active_.size() - 1);
  return number;
}

// Each compares with its neighbours: where all neighbours agree, all do.
void Executor::begin_check(Run& run) {
  const Stream stream = stream_of(run, check_lane);
  prepare_send(run.check_out, (rank_ + 1) % ranks_, stream, &run.mine, sizeof run.mine, false, 1);
  begin_send(run.check_out);
  prepare_receive(run.check_in, (rank_ + ranks_ - 1) % ranks_, stream, &run.theirs, sizeof run.theirs, false, 1);
  begin_receive(run.check_in);
}

bool Executor::end_check(Run& run) {
  for (const Slot* slot : {&run.check_out, &run.check_in})
    if (slot->operation().state == State::waiting) return false;
  if (failed_peer_ || mismatch_) return false;
  for (const Slot* slot : {&run.check_out, &run.check_in}) note_end(*slot);
  if (failed_peer_) return false;
  if (run.theirs != run.mine) {
    mismatch_ = Mismatch{run.check_in.receive.peer, run.mine, run.theirs};
    return false;
  }
  run.checking = false;
  begin_lanes(run);
  return true;
}

void Executor::begin_lanes(Run& run) {
  for (LaneRun& place : run.places) next_lane(run, place);
}

void Executor::next_lane(Run& run, LaneRun& lane) {
  lane.planned = nullptr;
  if (run.next_lane == run.plan->lanes.size()) return;
  lane.stream = stream_of(run, run.next_lane);
  lane.planned = &run.plan->lanes[run.next_lane++];
  lane.round = 0;
  ++run.places_busy;
  if (lane.planned->schedule.rounds() != 0) begin_round(run, lane);
}

// True once the run is over.
bool Executor::advance(Run& run) {
  if (run.checking && !end_check(run)) return false;
  if (run.plan == nullptr) {
    if (collect(run.places[0], run.places[0].waiting)) run.places_busy = 0;
    return run.places_busy == 0;
  }
  for (LaneRun& lane : run.places) {
    while (lane.planned != nullptr && advance_lane(run, lane)) {
      --run.places_busy;
      next_lane(run, lane);
    }
  }
  return run.places_busy == 0;
}

// True once the lane is over.
bool Executor::advance_lane(Run& run, LaneRun& lane) {
  const auto rounds = static_cast<u32>(lane.planned->schedule.rounds());
  while (lane.round != rounds) {
    if (!collect(lane, lane.waiting)) return false;
    if (++lane.round != rounds) begin_round(run, lane);
  }
  return lane.lent.empty() || collect(lane, lane.lent);
}

void Executor::begin_round(Run& run, LaneRun& lane) {
  const std::vector<u32>& ends = lane.planned->schedule.round_ends;
  const u32 end = ends[lane.round];
  for (u32 step = lane.round == 0 ? 0 : ends[lane.round - 1]; step < end; ++step) post(run, lane, step);
}

void Executor::post(Run& run, LaneRun& lane, u32 number) {
  const Step& step = lane.planned->schedule.steps[number];
  switch (step.kind) {
    case Kind::send:
      return post_send(run, lane, number, step);
    case Kind::receive:
    case Kind::receive_reduce:
      return post_receive(run, lane, number, step);
    case Kind::copy:
      return kernels::copy(writable(run, lane, step.to), readable(run, lane, step.from),
                           step.to.count * size_of(run.work.type));
    case Kind::reduce:
      return reduce(run, lane, step);
    case Kind::aggregate:
      return post_aggregation(run, lane, number, step);
  }
}

void Executor::post_send(Run& run, LaneRun& lane, u32 number, const Step& step) {
  Slot& slot = lane.slots[number];
  prepare_send(slot, step.peer, lane.stream, readable(run, lane, step.from), step.from.count * size_of(run.work.type),
               step.lend, lane.planned->ordinals[number]);
  slot.send.push = lane.planned->pushes[number];
  begin_send(slot);
  (step.lend ? lane.lent : lane.waiting).push_back(number);
}

void Executor::post_receive(Run& run, LaneRun& lane, u32 number, const Step& step) {
  Slot& slot = lane.slots[number];
  std::byte* to = writable(run, lane, step.to);
  prepare_receive(slot, step.peer, lane.stream, to, step.to.count * size_of(run.work.type), step.lend,
                  lane.planned->ordinals[number]);
  if (step.kind == Kind::receive_reduce) {
    slot.sink.type = run.work.type;
    slot.sink.op = run.work.op;
    slot.sink.ranks = step.complete ? ranks_ : 1;
    slot.sink.own = readable(run, lane, step.from);
    slot.sink.out = to;
    slot.receive.sink = &slot.sink;
  }
  begin_receive(slot);
  lane.waiting.push_back(number);
}

void Executor::reduce(Run& run, LaneRun& lane, const Step& step) {
  const PlannedLane& planned = *lane.planned;
  operands_.clear();
  for (u32 i = step.first_operand; i < step.first_operand + step.operand_count; ++i) {
    const u32 source = planned.lent_by[i];
    operands_.push_back(source == no_step ? readable(run, lane, planned.schedule.operands[i])
                                          : lane.slots[source].receive.data);
  }
  kernels::reduce(run.work.type, run.work.op, writable(run, lane, step.to), operands_, step.to.count,
                  step.complete ? ranks_ : 1);
  for (u32 i = step.first_operand; i < step.first_operand + step.operand_count; ++i) {
    const u32 source = planned.lent_by[i];
    if (source == no_step) continue;
    Receive& receive = lane.slots[source].receive;
    routes_.to(receive.peer).release(receive);
    if (receive.state == State::done) continue;
    ++pending_[routes_.by_peer[receive.peer]];
    lane.lent.push_back(source);
  }
}

void Executor::post_aggregation(Run& run, LaneRun& lane, u32 number, const Step& step) {
  Slot& slot = lane.slots[number];
  slot.kind = Slot::Kind::aggregation;
  Aggregation& aggregation = slot.aggregation;
  reset(aggregation, rank_, lane.stream, step.to.count * size_of(run.work.type), false, 0);
  aggregation.gives = step.from.count == step.to.count;
  aggregation.from = readable(run, lane, step.from);
  aggregation.to = writable(run, lane, step.to);
  aggregation.type = run.work.type;
  aggregation.op = run.work.op;
  begun_ = true;
  ++pending_tree_;
  lane.waiting.push_back(number);
  routes_.tree->begin(aggregation);
}

void Executor::begin_send(Slot& slot) {
  begun_ = true;
  ++pending_[routes_.by_peer[slot.send.peer]];
  routes_.to(slot.send.peer).send(slot.send);
}

void Executor::begin_receive(Slot& slot) {
  begun_ = true;
  ++pending_[routes_.by_peer[slot.receive.peer]];
  routes_.to(slot.receive.peer).receive(slot.receive);
}

void Executor::note_end(const Slot& slot) {
  const Operation& operation = slot.operation();
  ended_ = true;
  if (slot.kind == Slot::Kind::aggregation) {
    --pending_tree_;
    tree_failed_ = tree_failed_ || operation.state == State::failed;
    return;
  }
  --pending_[routes_.by_peer[operation.peer]];
  if (operation.state == State::failed && !failed_peer_) failed_peer_ = operation.peer;
}

// Takes out those that are over; true if none is left. After a failure nothing ever ends.
bool Executor::collect(LaneRun& lane, std::vector<u32>& pending) {
  for (std::size_t i = 0; i < pending.size();) {
    const Slot& slot = lane.slots[pending[i]];
    if (slot.operation().state == State::waiting) {
      ++i;
      continue;
    }
    note_end(slot);
    pending[i] = pending.back();
    pending.pop_back();
  }
  return pending.empty() && !failed_peer_ && !tree_failed_;
}

void Executor::release(std::unique_ptr<Run> run) {
  take_buffers_back(*run);
  for (LaneRun& place : run->places) {
    if (run->scratch_bytes > kept_scratch)
      scratch_.give_back(std::exchange(place.scratch, nullptr), run->scratch_bytes);
    place.planned = nullptr;
  }
  scratch_.give_back(std::exchange(run->scaled, nullptr), run->scaled_bytes);
  Plan* plan = run->plan;
  if (plan != nullptr) --plan->active;
  (plan == nullptr ? idle_messages_ : plan->idle).push_back(std::move(run));
}

void Executor::finish(std::size_t index) {
  std::unique_ptr<Run> run = std::move(active_[index]);
  active_.erase(active_.begin() + static_cast<std::ptrdiff_t>(index));
  release(std::move(run));
}

bool Executor::progress() {
  bool moved = false;
  const bool all = rounds_++ % rounds_between_idle == 0;
  for (std::size_t i = 0; i < pending_.size(); ++i)
    if (pending_[i] != 0 || all) moved |= routes_.transports[i]->progress();
  if (routes_.tree && (pending_tree_ != 0 || all)) moved |= routes_.tree->progress();
  // Beginning one operation may have ended others.
  if (!moved && !std::exchange(begun_, false)) return false;
  ended_ = false;
  for (std::size_t i = 0; i < active_.size();) {
    if (advance(*active_[i]))
      finish(i);
    else
      ++i;
  }
  return moved || ended_;
}

bool Executor::is_active(u64 number) const {
  return std::any_of(active_.begin(), active_.end(), [number](const auto& run) { return run->number == number; });
}

void Executor::set_wanted(u64 number, bool wanted) {
  for (const auto& run : active_)
    if (run->number == number) run->wanted = wanted;
}

const Run* Executor::oldest() const {
  const auto found = std::find_if(active_.begin(), active_.end(), [](const auto& run) { return run->wanted; });
  return found == active_.end() ? nullptr : found->get();
}

std::vector<u32> Executor::awaited() const {
  std::vector<u32> peers;
  const Run* first = oldest();
  if (first == nullptr) return peers;
  add_awaited(*first, peers);
  if (first->plan != nullptr) return peers;
  for (const auto& run : active_)
    if (run->plan == nullptr && run->wanted) add_awaited(*run, peers);
  return peers;
}

std::vector<u32> Executor::awaited_by(u64 number) const {
  std::vector<u32> peers;
  for (const auto& run : active_)
    if (run->number == number) add_awaited(*run, peers);
  return peers;
}

void Executor::add_awaited(const Run& run, std::vector<u32>& peers) const {
  const auto add = [this, &peers](const Slot& slot) {
    const Operation& operation = slot.operation();
    if (slot.kind == Slot::Kind::aggregation) {
      if (operation.state != State::done)
        for (const u32 member : routes_.tree->members())
          if (member != rank_ && std::find(peers.begin(), peers.end(), member) == peers.end()) peers.push_back(member);
      return;
    }
    if (operation.state != State::done && std::find(peers.begin(), peers.end(), operation.peer) == peers.end())
      peers.push_back(operation.peer);
  };
  if (run.checking) {
    add(run.check_in);
    add(run.check_out);
  }
  for (const LaneRun& lane : run.places)
    for (const std::vector<u32>* pending : {&lane.waiting, &lane.lent})
      for (const u32 step : *pending) add(lane.slots[step]);
}

void Executor::drop_all() {
  for (std::unique_ptr<Run>& run : active_) {
    for (LaneRun& place : run->places) {
      place.waiting.clear();
      place.lent.clear();
    }
    release(std::move(run));
  }
  active_.clear();
  std::fill(pending_.begin(), pending_.end(), 0);
  pending_tree_ = 0;
}

}  // namespace softib::coll
