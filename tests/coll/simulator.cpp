#include "simulator.h"

#include <algorithm>
#include <optional>

namespace softib::coll::test {

namespace {

struct Place {
  u32 rank;
  u32 lane;
};

// A step that is under way.
struct Posted {
  Place place;
  const Step* step;
  u32 begun;                // hops before its round
  std::vector<u64> data{};  // of a send that copied at once
  bool copied{};
};

struct Channel {
  std::deque<Posted> sends;
  std::deque<Posted> receives;
};

struct ChannelKey {
  u32 from, to, lane;
  friend auto operator<=>(const ChannelKey&, const ChannelKey&) = default;
};

struct Progress {
  std::size_t round = 0;
  std::size_t left = 0;  // steps that the round waits for
  u32 begun = 0;         // hops before the round
  u32 ended = 0;         // hops before the end of the round, as far as known
  std::vector<u64> scratch;
};

// Memory that a receiver may use in place, from the post of the send to the reduce.
struct Loan {
  const Step* send;
  const u64* begin;
  u64 count;
};

// What a receiver reads instead of a span of its scratch.
struct Borrowed {
  u32 lane;
  Span span;
  const u64* begin;
  u32 owner;
  const Step* send;
};

// What ranks gave the network so far, for the steps that meet there.
using Meeting = std::vector<Posted>;

struct Event {
  std::optional<ChannelKey> channel;  // else a local step, or the end of a send that copied at once
  Place place{};
  const Step* step = nullptr;
  std::optional<std::pair<u32, u32>> meeting{};  // a lane, and which of its meetings
};

class Simulation {
 public:
  Simulation(std::vector<Rank>& ranks, const Operator& op, Sends sends, std::mt19937_64& random)
      : ranks_(ranks), op_(op), sends_(sends), random_(random) {}

  Outcome run() {
    outcome_.sent.resize(ranks_.size());
    loans_.resize(ranks_.size());
    borrowed_.resize(ranks_.size());
    for (u32 rank = 0; rank < ranks_.size(); ++rank) {
      progress_.emplace_back(ranks_[rank].lanes.size());
      for (u32 lane = 0; lane < ranks_[rank].lanes.size(); ++lane) {
        progress_[rank][lane].scratch.resize(ranks_[rank].lanes[lane].scratch);
        for (u64& word : progress_[rank][lane].scratch) word = random_();
        begin_round({rank, lane});
      }
    }
    while (outcome_.error.empty() && !ready_.empty()) {
      std::swap(ready_[random_() % ready_.size()], ready_.back());
      const Event event = ready_.back();
      ready_.pop_back();
      event.channel ? deliver(*event.channel) : event.meeting ? aggregate(*event.meeting) : run_local(event);
    }
    if (outcome_.error.empty()) check_end();
    return outcome_;
  }

 private:
  void fail_with(const std::string& what) {
    if (outcome_.error.empty()) outcome_.error = what;
  }

  Progress& progress(Place place) { return progress_[place.rank][place.lane]; }
  const Schedule& schedule(Place place) { return ranks_[place.rank].lanes[place.lane]; }

  u64* words(Place place, Span span) {
    Memory& memory = ranks_[place.rank].memory;
    if (span.buffer == Buffer::scratch) return progress(place).scratch.data() + span.offset;
    return memory.words.data() + (span.buffer == Buffer::input ? memory.input_at : memory.output_at) + span.offset;
  }

  void begin_round(Place place) {
    Progress& now = progress(place);
    now.begun = now.ended;
    if (now.round == schedule(place).rounds()) {
      outcome_.hops = std::max(outcome_.hops, now.ended);
      return;
    }
    const std::span<const Step> steps = schedule(place).round(now.round);
    now.left = static_cast<std::size_t>(std::count_if(
        steps.begin(), steps.end(), [](const Step& step) { return step.kind != Kind::send || !step.lend; }));
    const bool waits = now.left != 0;
    for (const Step& step : steps) post(place, step);
    if (!waits) end_round(place);
  }

  void end_round(Place place) {
    ++progress(place).round;
    begin_round(place);
  }

  void post(Place place, const Step& step) {
    Posted posted{place, &step, progress(place).begun, {}};
    switch (step.kind) {
      case Kind::send:
        return post_send(std::move(posted));
      case Kind::receive:
      case Kind::receive_reduce:
        return post_receive(std::move(posted));
      case Kind::aggregate:
        return post_aggregation(std::move(posted));
      default:
        ready_.push_back({std::nullopt, place, &step});
    }
  }

  void post_send(Posted posted) {
    const Step& step = *posted.step;
    const Place place = posted.place;
    outcome_.sent[place.rank] += step.from.count;
    ++outcome_.messages;
    const u64* from = words(place, step.from);
    const bool at_once = sends_ == Sends::any && random_() % 2 == 0;
    if (at_once) {
      posted.data.assign(from, from + step.from.count);
      posted.copied = true;
    } else if (step.lend) {
      loans_[place.rank].push_back({&step, from, step.from.count});
    }
    const ChannelKey key{place.rank, step.peer, place.lane};
    channels_[key].sends.push_back(std::move(posted));
    look_at(key, channels_[key].sends.size());
    if (at_once && !step.lend) ready_.push_back({std::nullopt, place, &step});
  }

  void post_receive(Posted posted) {
    const Step& step = *posted.step;
    u64* to = words(posted.place, step.to);
    const bool keeps = step.kind == Kind::receive_reduce && step.from == step.to;
    if (!keeps && !is_lent(posted.place, to, step.to.count) && !shares_operand(posted.place, step))
      for (u64 i = 0; i < step.to.count; ++i) to[i] = random_();
    const ChannelKey key{step.peer, posted.place.rank, posted.place.lane};
    channels_[key].receives.push_back(std::move(posted));
    look_at(key, channels_[key].receives.size());
  }

  // The n-th such steps of all ranks that have any in the lane belong together.
  void post_aggregation(Posted posted) {
    const u32 lane = posted.place.lane;
    const auto members = std::count_if(ranks_.begin(), ranks_.end(), [lane](const Rank& rank) {
      const std::vector<Step>& steps = rank.lanes[lane].steps;
      return std::any_of(steps.begin(), steps.end(), [](const Step& step) { return step.kind == Kind::aggregate; });
    });
    const Place place = posted.place;
    const u32 number = aggregations_[{place.rank, lane}]++;
    Meeting& meeting = meetings_[{lane, number}];
    meeting.push_back(std::move(posted));
    if (meeting.size() == static_cast<std::size_t>(members))
      ready_.push_back({std::nullopt, place, nullptr, std::pair{lane, number}});
  }

  void aggregate(const std::pair<u32, u32>& key) {
    Meeting meeting = std::move(meetings_.extract(key).mapped());
    std::sort(meeting.begin(), meeting.end(),
              [](const Posted& a, const Posted& b) { return a.place.rank < b.place.rank; });
    std::vector<u64> sums;
    u32 hops = 0;
    for (const Posted& posted : meeting) {
      const Step& step = *posted.step;
      hops = std::max(hops, posted.begun + 2);
      if (step.from.count != step.to.count || step.to.count == 0) continue;
      outcome_.sent[posted.place.rank] += step.from.count;
      const u64* from = words(posted.place, step.from);
      if (sums.empty())
        sums.assign(from, from + step.from.count);
      else if (sums.size() != step.from.count)
        return fail_with("lengths differ in the network");
      else
        for (u64 i = 0; i < sums.size(); ++i) sums[i] = op_.combine(sums[i], from[i]);
    }
    if (meeting[0].step->complete)
      for (u64& sum : sums) sum = op_.finish(sum);
    for (const Posted& posted : meeting) {
      if (posted.step->to.count != sums.size()) return fail_with("nobody gives the network anything");
      write(posted.place, posted.step->to, sums);
      finish(posted.place, hops);
    }
  }

  // In place, input and output of one step may be the same words.
  bool shares_operand(Place place, const Step& step) {
    return step.kind == Kind::receive_reduce && words(place, step.from) == words(place, step.to);
  }

  // A message is ready when both ends have come to it. Channels keep their order, so only the first pair counts.
  void look_at(const ChannelKey& key, std::size_t just_added) {
    const Channel& channel = channels_[key];
    if (just_added == 1 && !channel.sends.empty() && !channel.receives.empty()) ready_.push_back({key});
  }

  bool is_lent(Place place, const u64* words, u64 count) {
    const std::vector<Loan>& loans = loans_[place.rank];
    return std::any_of(loans.begin(), loans.end(),
                       [&](const Loan& loan) { return loan.begin < words + count && words < loan.begin + loan.count; });
  }

  void give_back(u32 owner, const Step* send) {
    std::erase_if(loans_[owner], [send](const Loan& loan) { return loan.send == send; });
  }

  void write(Place place, Span span, const std::vector<u64>& data) {
    u64* to = words(place, span);
    if (is_lent(place, to, data.size())) fail_with("lent memory is written");
    std::copy(data.begin(), data.end(), to);
  }

  void deliver(const ChannelKey& key) {
    Channel& channel = channels_[key];
    Posted send = std::move(channel.sends.front());
    Posted receive = std::move(channel.receives.front());
    channel.sends.pop_front();
    channel.receives.pop_front();
    if (!channel.sends.empty() && !channel.receives.empty()) ready_.push_back({key});
    if (send.step->from.count != receive.step->to.count) return fail_with("lengths differ");
    if (send.step->lend != receive.step->lend) return fail_with("one side lends, the other doesn't");
    transfer(send, receive);
    const u32 hops = std::max(send.begun, receive.begun) + 1;
    if (!send.copied && !send.step->lend) finish(send.place, hops);
    finish(receive.place, hops);
  }

  void transfer(Posted& send, const Posted& receive) {
    const u64* from = words(send.place, send.step->from);
    const bool lent = send.step->lend && !send.copied;
    if (lent && (sends_ == Sends::synchronous || random_() % 2 == 0)) {
      borrowed_[receive.place.rank].push_back({receive.place.lane, receive.step->to, from, send.place.rank, send.step});
      return;
    }
    if (lent) give_back(send.place.rank, send.step);
    if (!send.copied) send.data.assign(from, from + send.step->from.count);
    if (receive.step->kind == Kind::receive_reduce) {
      const u64* own = words(receive.place, receive.step->from);
      for (u64 i = 0; i < send.data.size(); ++i) send.data[i] = combined(*receive.step, send.data[i], own[i]);
    }
    write(receive.place, receive.step->to, send.data);
  }

  u64 combined(const Step& step, u64 a, u64 b) const {
    const u64 sum = op_.combine(a, b);
    return step.complete ? op_.finish(sum) : sum;
  }

  void run_local(const Event& event) {
    const Step& step = *event.step;
    if (step.kind == Kind::send) return finish(event.place, progress(event.place).begun);
    if (step.kind == Kind::copy) {
      const u64* from = words(event.place, step.from);
      write(event.place, step.to, {from, from + step.from.count});
    } else {
      reduce(event.place, step);
    }
    finish(event.place, progress(event.place).begun);
  }

  void reduce(Place place, const Step& step) {
    std::vector<const u64*> operands;
    const std::span<const Span> spans = schedule(place).operands_of(step);
    for (const Span& span : spans) operands.push_back(operand(place, span));
    std::vector<u64> sums(operands[0], operands[0] + step.to.count);
    for (u64 i = 0; i < sums.size(); ++i) {
      for (std::size_t k = 1; k < operands.size(); ++k) sums[i] = op_.combine(sums[i], operands[k][i]);
      if (step.complete) sums[i] = op_.finish(sums[i]);
    }
    std::erase_if(borrowed_[place.rank], [&](const Borrowed& borrowed) {
      const bool used =
          std::any_of(spans.begin(), spans.end(), [&](const Span& span) { return is_for(borrowed, place, span); });
      if (used) give_back(borrowed.owner, borrowed.send);
      return used;
    });
    write(place, step.to, sums);
  }

  const u64* operand(Place place, Span span) {
    for (const Borrowed& borrowed : borrowed_[place.rank])
      if (is_for(borrowed, place, span)) return borrowed.begin;
    return words(place, span);
  }

  static bool is_for(const Borrowed& borrowed, Place place, Span span) {
    return borrowed.lane == place.lane && borrowed.span == span;
  }

  void finish(Place place, u32 hops) {
    Progress& now = progress(place);
    now.ended = std::max(now.ended, hops);
    if (--now.left == 0) end_round(place);
  }

  void check_end() {
    for (u32 rank = 0; rank < ranks_.size(); ++rank)
      for (u32 lane = 0; lane < ranks_[rank].lanes.size(); ++lane)
        if (progress_[rank][lane].round != ranks_[rank].lanes[lane].rounds())
          fail_with("rank " + std::to_string(rank) + " waits for ever in round " +
                    std::to_string(progress_[rank][lane].round));
    for (const auto& [key, channel] : channels_)
      if (!channel.sends.empty() || !channel.receives.empty())
        fail_with("a message between " + std::to_string(key.from) + " and " + std::to_string(key.to) + " has one end");
    if (!meetings_.empty()) fail_with("not all came to a meeting in the network");
    for (const auto& loans : loans_)
      if (!loans.empty()) fail_with("lent memory is not given back");
  }

  std::vector<Rank>& ranks_;
  const Operator& op_;
  Sends sends_;
  std::mt19937_64& random_;
  Outcome outcome_;
  std::vector<std::vector<Progress>> progress_;
  std::map<ChannelKey, Channel> channels_;
  std::vector<Event> ready_;
  std::map<std::pair<u32, u32>, Meeting> meetings_;  // by lane and number
  std::map<std::pair<u32, u32>, u32> aggregations_;  // by rank and lane: how many were begun
  std::vector<std::vector<Loan>> loans_;             // by owner
  std::vector<std::vector<Borrowed>> borrowed_;      // by borrower
};

}  // namespace

Outcome simulate(std::vector<Rank>& ranks, const Operator& op, Sends sends, std::mt19937_64& random) {
  return Simulation(ranks, op, sends, random).run();
}

}  // namespace softib::coll::test
