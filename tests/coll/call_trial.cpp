#include "call_trial.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "reference.h"

namespace softib::coll::test {

namespace {

constexpr u64 guard = 64;

bool has_list(Collective collective) {
  return collective != Collective::all_reduce && collective != Collective::broadcast &&
         collective != Collective::reduce && collective != Collective::barrier;
}

bool is_rooted_block(Collective collective) {
  return collective == Collective::gather || collective == Collective::scatter;
}

// Numbers of which every sum and product over nine ranks is exact in every type, so that all orders give the same bits.
double small_number(Op op, u64 random, u32 rank) {
  if (op == Op::prod) return rank % 4 == 1 ? 2 : 1;
  if (op == Op::max || op == Op::min) return static_cast<double>(random % 16);
  return rank % 4 < 2 ? static_cast<double>(random % 2) : 0;
}

}  // namespace

std::ostream& operator<<(std::ostream& out, const CallTrial& trial) {
  out << name_of(trial.collective) << (trial.by_rank ? "_v" : "") << " of " << name_of(trial.type) << " by "
      << name_of(trial.op) << ", " << trial.ranks << " ranks, root " << trial.root
      << (trial.in_place ? ", in place" : "") << ", counts";
  for (const u64 count : trial.counts) out << " " << count;
  return out << ", seed " << trial.seed;
}

CallTrial any_call(Collective collective, u32 ranks, u64 largest_count, std::mt19937_64& random) {
  CallTrial trial{collective, ranks};
  trial.type = static_cast<DataType>(random() % type_table.size());
  trial.op = static_cast<Op>(random() % op_names.size());
  trial.in_place = random() % 2 == 0;
  trial.by_rank = has_list(collective) && random() % 2 == 0;
  trial.root = static_cast<u32>(random() % ranks);
  const u64 count = random() % 4 == 0 ? random() % 3 : random() % (largest_count + 1);
  const std::size_t number = collective == Collective::all_to_all ? std::size_t{ranks} * ranks : ranks;
  const bool varies = trial.by_rank && !(collective == Collective::all_to_all && trial.in_place);
  for (std::size_t i = 0; i < number; ++i) trial.counts.push_back(varies ? random() % (largest_count + 1) : count);
  trial.seed = random();
  return trial;
}

CallRank::CallRank(const CallTrial& trial, u32 rank) : trial_(trial), rank_(rank) { lay_out(); }

bool CallRank::reduces() const {
  return trial_.collective == Collective::all_reduce || trial_.collective == Collective::reduce ||
         trial_.collective == Collective::reduce_scatter;
}

u64 CallRank::count_of(u32 from, u32 to) const {
  switch (trial_.collective) {
    case Collective::all_to_all:
      return trial_.counts[from * trial_.ranks + to];
    case Collective::all_gather:
    case Collective::gather:
      return trial_.counts[from];
    case Collective::barrier:
      return 0;
    default:
      return trial_.counts[to];
  }
}

CallRank::Bytes CallRank::given(u32 rank, u32 block) const {
  const u64 count = count_of(rank, block);
  Bytes bytes(count * size());
  std::mt19937_64 random(trial_.seed + rank * 977 + block * 31);
  for (u64 i = 0; i < count; ++i) {
    const u64 bits = random();
    if (is_floating(trial_.type) && reduces()) {
      const Scalar value = Scalar::from_number(trial_.type, small_number(trial_.op, bits, rank));
      std::memcpy(bytes.data() + i * size(), value.bytes(), size());
    } else {
      std::memcpy(bytes.data() + i * size(), &bits, size());
    }
  }
  return bytes;
}

// all_reduce and its kin have one block, which count_of() takes for the first rank's.
CallRank::Bytes CallRank::input_of(u32 rank) const {
  Bytes all;
  const bool listed = trial_.collective == Collective::reduce_scatter || trial_.collective == Collective::scatter ||
                      trial_.collective == Collective::all_to_all;
  for (u32 block = 0; block < (listed ? trial_.ranks : 1); ++block) {
    const Bytes part = given(rank, block);
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

Scalar CallRank::factor_of(u32 rank) const { return Scalar::from_number(trial_.type, rank % 2 == 0 ? 1 : 2); }

Reduction CallRank::reduction() const { return {trial_.type, trial_.op, factor_of(rank_)}; }

CallRank::Bytes CallRank::reduced(u32 block) const {
  std::vector<Bytes> parts;
  for (u32 rank = 0; rank < trial_.ranks; ++rank) {
    parts.push_back(given(rank, block));
    const Bytes copy = parts.back();
    const u64 count = copy.size() / size();
    if (trial_.op == Op::premul_sum && rank % 2 != 0)  // times two is once more
      reduce(trial_.type, Op::sum, parts.back(), {copy, copy}, count, 1);
  }
  Inputs inputs;
  for (const Bytes& part : parts) inputs.emplace_back(part);
  Bytes sum(parts[0].size());
  reduce(trial_.type, trial_.op, sum, inputs, sum.size() / size(), trial_.ranks);
  return sum;
}

CallRank::Bytes CallRank::expected() const {
  Bytes all;
  const auto add = [&all](const Bytes& part) { all.insert(all.end(), part.begin(), part.end()); };
  const bool root = rank_ == trial_.root;
  switch (trial_.collective) {
    case Collective::all_reduce:
      return reduced(0);
    case Collective::reduce:
      return root ? reduced(0) : Bytes{};
    case Collective::reduce_scatter:
      return reduced(rank_);
    case Collective::broadcast:
      return given(trial_.root, 0);
    case Collective::scatter:
      return given(trial_.root, rank_);
    case Collective::gather:
    case Collective::all_gather:
      for (u32 rank = 0; rank < trial_.ranks && (root || trial_.collective == Collective::all_gather); ++rank)
        add(given(rank, 0));
      return all;
    case Collective::all_to_all:
      for (u32 rank = 0; rank < trial_.ranks; ++rank) add(given(rank, rank_));
      return all;
    case Collective::barrier:
      return all;
  }
  return all;
}

void CallRank::lay_out() {
  const Bytes input = input_of(rank_);
  output_bytes_ = expected().size();
  if (trial_.collective == Collective::reduce) output_bytes_ = input.size();
  std::mt19937_64 random(trial_.seed ^ rank_);
  memory_.resize(3 * guard + input.size() + output_bytes_);
  for (std::byte& byte : memory_) byte = static_cast<std::byte>(random());
  input_at_ = guard;
  output_at_ = 2 * guard + input.size();
  const bool only_root = is_rooted_block(trial_.collective) || trial_.collective == Collective::broadcast;
  if (trial_.in_place && (!only_root || rank_ == trial_.root)) {
    u64 before = 0;
    for (u32 rank = 0; rank < rank_; ++rank) before += trial_.counts[rank] * size();
    const bool collects = trial_.collective == Collective::all_gather || trial_.collective == Collective::gather;
    const bool scatters = trial_.collective == Collective::reduce_scatter || trial_.collective == Collective::scatter;
    if (collects)
      input_at_ = output_at_ + before;
    else
      output_at_ = input_at_ + (scatters ? before : 0);
  }
  std::copy(input.begin(), input.end(), memory_.begin() + static_cast<std::ptrdiff_t>(input_at_));
  before_ = memory_;
}

Started CallRank::start(Communicator& communicator) {
  const std::byte* in = memory_.data() + input_at_;
  std::byte* out = memory_.data() + output_at_;
  if (trial_.by_rank) return start_by_rank(communicator, in, out);
  const u64 count = trial_.counts[0];
  switch (trial_.collective) {
    case Collective::all_reduce:
      return communicator.start_all_reduce(in, out, count, reduction());
    case Collective::reduce:
      return communicator.start_reduce(in, out, count, reduction(), trial_.root);
    case Collective::broadcast:
      return communicator.start_broadcast(in, out, count, trial_.type, trial_.root);
    case Collective::all_gather:
      return communicator.start_all_gather(in, out, count, trial_.type);
    case Collective::reduce_scatter:
      return communicator.start_reduce_scatter(in, out, count, reduction());
    case Collective::gather:
      return communicator.start_gather(in, out, count, trial_.type, trial_.root);
    case Collective::scatter:
      return communicator.start_scatter(in, out, count, trial_.type, trial_.root);
    case Collective::all_to_all:
      return communicator.start_all_to_all(in, out, count, trial_.type);
    case Collective::barrier:
      return communicator.start_barrier();
  }
  return refuse(Code::internal_error, "no such collective");
}

Started CallRank::start_by_rank(Communicator& communicator, const void* in, void* out) {
  switch (trial_.collective) {
    case Collective::all_gather:
      return communicator.start_all_gather_v(in, out, trial_.counts, trial_.type);
    case Collective::reduce_scatter:
      return communicator.start_reduce_scatter_v(in, out, trial_.counts, reduction());
    case Collective::gather:
      return communicator.start_gather_v(in, out, trial_.counts, trial_.type, trial_.root);
    case Collective::scatter:
      return communicator.start_scatter_v(in, out, trial_.counts, trial_.type, trial_.root);
    default:
      break;
  }
  std::vector<u64> counts[2];
  for (u32 side = 0; side < 2; ++side) {
    u64 at = 0;
    for (u32 rank = 0; rank < trial_.ranks; ++rank) {
      counts[side].push_back(side == 0 ? count_of(rank_, rank) : count_of(rank, rank_));
      offsets_[side].push_back(at);
      at += counts[side].back();
    }
  }
  return communicator.start_all_to_all_v(in, {counts[0], offsets_[0]}, out, {counts[1], offsets_[1]}, trial_.type);
}

std::string CallRank::fault() const {
  const Bytes want = expected();
  const std::span got = std::span(memory_).subspan(output_at_, want.size());
  for (u64 i = 0; i < want.size() / size(); ++i)
    if (!same(trial_.type, want, got, i)) return "rank " + std::to_string(rank_) + ": element " + std::to_string(i);
  // In place, a reduction may leave rubbish where the output is on ranks that get no result.
  const bool rubbish = trial_.in_place && trial_.collective == Collective::reduce;
  const u64 meant = rubbish ? output_bytes_ : want.size();
  for (u64 i = 0; i < memory_.size(); ++i)
    if ((i < output_at_ || i >= output_at_ + meant) && memory_[i] != before_[i])
      return "rank " + std::to_string(rank_) + ": byte " + std::to_string(i) + ", which is not of the output, changed";
  return {};
}

}  // namespace softib::coll::test
