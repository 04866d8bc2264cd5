#include "trial.h"

#include <algorithm>
#include <bit>
#include <numeric>

namespace softib::coll::test {

namespace {

constexpr u64 finishing_factor = 0x9e3779b97f4a7c15;

bool reduces(Collective collective) {
  return collective == Collective::all_reduce || collective == Collective::reduce ||
         collective == Collective::reduce_scatter;
}

}  // namespace

const Operator word_sum{[](u64 a, u64 b) { return a + b; }, [](u64 sum) { return sum * finishing_factor; }};
const Operator double_sum{
    [](u64 a, u64 b) { return std::bit_cast<u64>(std::bit_cast<double>(a) + std::bit_cast<double>(b)); },
    [](u64 sum) { return sum; }};

std::ostream& operator<<(std::ostream& out, const Trial& trial) {
  out << name_of(trial.row->collective) << " by " << name_of(trial.row->algorithm) << ", " << trial.ranks
      << " ranks, root " << trial.root << (trial.in_place ? ", in place" : "") << (trial.spread ? ", spread" : "")
      << (trial.shuffled ? ", shuffled" : "") << ", " << trial.lanes << " lanes, granule " << trial.granule
      << ", counts";
  for (const u64 count : trial.counts) out << " " << count;
  if (!trial.hosts.empty()) out << ", hosts";
  for (const u32 host : trial.hosts) out << " " << host;
  return out << ", seed " << trial.seed;
}

Trial any_trial(const AlgorithmRow& row, u32 ranks, u64 largest_count, std::mt19937_64& random) {
  Trial trial{&row, ranks};
  trial.in_place = random() % 2 == 0;
  const bool equal =
      row.counts == Counts::equal || random() % 2 == 0 || (row.collective == Collective::all_to_all && trial.in_place);
  const u64 first = random() % 4 == 0 ? random() % 3 : random() % (largest_count + 1);
  const std::size_t number = row.collective == Collective::all_to_all ? std::size_t{ranks} * ranks : ranks;
  for (std::size_t i = 0; i < number; ++i) trial.counts.push_back(equal ? first : random() % (largest_count + 1));
  trial.root = static_cast<u32>(random() % ranks);
  trial.lanes = static_cast<u32>(1 + random() % 3);
  trial.granule = random() % 3 == 0 ? 1 + random() % 16 : 1;
  trial.spread = random() % 2 == 0;
  trial.shuffled = random() % 2 == 0;
  const u32 hosts = static_cast<u32>(1 + random() % ranks);
  const bool same_size = random() % 2 == 0 && ranks % hosts == 0;
  for (u32 i = 0; i < ranks && random() % 16 != 0; ++i)
    trial.hosts.push_back(same_size ? i % hosts : static_cast<u32>(random() % hosts));
  if (trial.hosts.size() != ranks) trial.hosts.clear();
  trial.seed = random();
  return trial;
}

Stage::Stage(const Trial& trial) : trial_(trial), random_(trial.seed), rank_of_(trial.ranks) {
  std::iota(rank_of_.begin(), rank_of_.end(), 0U);
  if (trial.shuffled) std::shuffle(rank_of_.begin(), rank_of_.end(), random_);
  ranks.resize(trial.ranks);
  problems.resize(trial.ranks);
  for (u32 member = 0; member < trial.ranks; ++member) add_member(member);
  for (const Rank& rank : ranks) before_.push_back(rank.memory);
  expect_results();
}

Blocks Stage::layout(const std::vector<u64>& counts) {
  Blocks blocks = blocks_of(counts);
  u64 gap = 0;
  for (Range& block : blocks) {
    if (trial_.spread) gap += random_() % 4;
    block.offset += gap;
  }
  return blocks;
}

void Stage::lay_out(Problem& problem, u32 member) {
  const std::vector<u64>& counts = trial_.counts;
  const std::vector<u64> whole{counts.empty() ? 0 : counts[0]};
  const std::vector<u64> mine{counts.empty() ? 0 : counts[member]};
  switch (trial_.row->collective) {
    case Collective::all_reduce:
    case Collective::broadcast:
    case Collective::reduce:
      problem.input = layout(whole);
      problem.output = problem.in_place ? problem.input : layout(whole);
      break;
    case Collective::all_gather:
    case Collective::gather:
      problem.input = layout(mine);
      if (problem.in_place) problem.input[0].offset = 0;
      if (trial_.row->collective == Collective::all_gather || member == trial_.root) problem.output = layout(counts);
      break;
    case Collective::reduce_scatter:
    case Collective::scatter:
      if (trial_.row->collective == Collective::reduce_scatter || member == trial_.root) problem.input = layout(counts);
      problem.output = layout(mine);
      if (problem.in_place) problem.output[0].offset = 0;
      break;
    case Collective::all_to_all: {
      std::vector<u64> from;
      for (u32 other = 0; other < trial_.ranks; ++other) from.push_back(counts[other * trial_.ranks + member]);
      const auto row = counts.begin() + member * trial_.ranks;
      problem.input = layout({row, row + trial_.ranks});
      problem.output = problem.in_place ? problem.input : layout(from);
      break;
    }
    case Collective::barrier:
      break;
  }
}

// One upon the other, as Buffer tells.
void Stage::lay_in_place(const Problem& problem, u32 member, Memory& memory) const {
  memory.output_at = memory.input_at;
  switch (trial_.row->collective) {
    case Collective::all_gather:
    case Collective::gather:
      memory.input_at += problem.output[member].offset;
      break;
    case Collective::reduce_scatter:
    case Collective::scatter:
      memory.output_at += problem.input[member].offset;
      break;
    default:
      break;
  }
}

void Stage::add_member(u32 member) {
  const u32 rank = rank_of_[member];
  Problem& problem = problems[rank];
  problem.group = {trial_.ranks, member, {}};
  if (trial_.shuffled) problem.group.ranks = rank_of_;
  problem.root = trial_.root;
  problem.hosts = trial_.hosts;
  problem.granule = trial_.granule;
  const Collective collective = trial_.row->collective;
  const bool only_root = collective == Collective::gather || collective == Collective::scatter;
  problem.in_place = trial_.in_place && (!only_root || member == trial_.root);
  lay_out(problem, member);
  const auto size = [](const Blocks& blocks) { return blocks.empty() ? 0 : blocks.back().end(); };
  Memory& memory = ranks[rank].memory;
  constexpr u64 guard = 3;
  memory.input_at = guard;
  memory.input_size = size(problem.input);
  memory.output_size = size(problem.output);
  memory.output_at = memory.input_at + memory.input_size + guard;
  if (problem.in_place) lay_in_place(problem, member, memory);
  memory.words.resize(std::max(memory.input_at + memory.input_size, memory.output_at + memory.output_size) + guard);
  for (u64& word : memory.words) word = random_();
  ranks[rank].lanes = make_lanes(*trial_.row, problem, trial_.lanes);
}

std::vector<u64> Stage::given(u32 member, std::size_t block) const {
  const Memory& memory = before_[rank_of_[member]];
  const Range range = problems[rank_of_[member]].input[block];
  const auto begin = memory.words.begin() + static_cast<std::ptrdiff_t>(memory.input_at + range.offset);
  return {begin, begin + static_cast<std::ptrdiff_t>(range.count)};
}

std::vector<u64> Stage::sum_of(std::size_t block) const {
  std::vector<u64> sum = given(0, block);
  for (u32 member = 1; member < trial_.ranks; ++member) {
    const std::vector<u64> more = given(member, block);
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += more[i];
  }
  for (u64& word : sum)
    if (trial_.ranks > 1) word *= finishing_factor;
  return sum;
}

void Stage::expect_range(u32 member, Range range, const std::vector<u64>& values) {
  const u32 rank = rank_of_[member];
  for (u64 i = 0; i < range.count; ++i)
    expected.push_back({rank, before_[rank].output_at + range.offset + i, values[i]});
}

void Stage::expect_results() {
  const Collective collective = trial_.row->collective;
  for (u32 member = 0; member < trial_.ranks; ++member) {
    const Problem& problem = problems[rank_of_[member]];
    const bool root = member == trial_.root;
    for (u32 block = 0; block < problem.output.size(); ++block) {
      const Range range = problem.output[block];
      switch (collective) {
        case Collective::all_reduce:
          expect_range(member, range, sum_of(0));
          break;
        case Collective::reduce:
          if (root) expect_range(member, range, sum_of(0));
          break;
        case Collective::broadcast:
          expect_range(member, range, given(trial_.root, 0));
          break;
        case Collective::reduce_scatter:
          expect_range(member, range, sum_of(member));
          break;
        case Collective::scatter:
          expect_range(member, range, given(trial_.root, member));
          break;
        case Collective::all_to_all:
          expect_range(member, range, given(block, member));
          break;
        default:
          expect_range(member, range, given(block, 0));
      }
    }
  }
}

std::string Stage::run(Sends sends, Outcome* outcome) {
  const std::string fault = faults_of(ranks);
  if (!fault.empty()) return fault;
  Outcome its = simulate(ranks, word_sum, sends, random_);
  if (outcome != nullptr) *outcome = its;
  if (!its.error.empty()) return its.error;
  std::vector<std::vector<bool>> meant(ranks.size());
  for (u32 rank = 0; rank < ranks.size(); ++rank) meant[rank].resize(ranks[rank].memory.words.size());
  for (const Expected& word : expected) {
    meant[word.rank][word.word] = true;
    if (ranks[word.rank].memory.words[word.word] != word.value)
      return "wrong result at rank " + std::to_string(word.rank) + ", word " +
             std::to_string(word.word - ranks[word.rank].memory.output_at);
  }
  // In place, reductions may leave rubbish in blocks that aren't the result; elsewhere nothing but the result changes.
  for (u32 rank = 0; rank < ranks.size(); ++rank)
    for (u64 word = 0; word < meant[rank].size(); ++word) {
      const Memory& memory = ranks[rank].memory;
      const bool output = word >= memory.output_at && word < memory.output_at + memory.output_size;
      if (!meant[rank][word] && memory.words[word] != before_[rank].words[word] &&
          !(output && reduces(trial_.row->collective)))
        return "rank " + std::to_string(rank) + " changed what is not its result";
    }
  return {};
}

}  // namespace softib::coll::test
