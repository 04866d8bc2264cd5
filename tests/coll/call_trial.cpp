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
      << (trial.in_place ? ", in place" : "") << (trial.scattered ? ", scattered" : "") << ", counts";
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

CallRank::CallRank(const CallTrial& trial, u32 rank, Communicator* communicator)
    : trial_(trial), rank_(rank), in_place_(trial.in_place) {
  lay_out(communicator);
}

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

// Sent and received; in place both sides lie alike.
void CallRank::choose_offsets(std::mt19937_64& random) {
  for (u32 side = 0; side < 2; ++side) {
    std::vector<u32> order(trial_.ranks);
    std::iota(order.begin(), order.end(), 0U);
    if (trial_.scattered) std::shuffle(order.begin(), order.end(), random);
    counts_[side].resize(trial_.ranks);
    offsets_[side].resize(trial_.ranks);
    u64 at = 0;
    for (const u32 rank : order) {
      counts_[side][rank] = side == 0 ? count_of(rank_, rank) : count_of(rank, rank_);
      offsets_[side][rank] = at;
      at += counts_[side][rank] + (trial_.scattered ? random() % 3 : 0);
    }
    extents_[side] = at;
  }
  if (!in_place_) return;
  offsets_[1] = offsets_[0];
  extents_[1] = extents_[0];
}

std::vector<CallRank::Piece> CallRank::pieces_in() const {
  if (!has_offsets()) return {{0, input_of(rank_)}};
  std::vector<Piece> pieces;
  for (u32 rank = 0; rank < trial_.ranks; ++rank) pieces.push_back({offsets_[0][rank] * size(), given(rank_, rank)});
  return pieces;
}

std::vector<CallRank::Piece> CallRank::pieces_out() const {
  if (!has_offsets()) return {{0, expected()}};
  std::vector<Piece> pieces;
  for (u32 rank = 0; rank < trial_.ranks; ++rank) pieces.push_back({offsets_[1][rank] * size(), given(rank, rank_)});
  return pieces;
}

void CallRank::choose_places(u64 input_bytes, std::mt19937_64& random) {
  const auto shift = [&] { return trial_.scattered ? random() % 20 * size() : 0; };
  input_at_ = guard + shift();
  output_at_ = input_at_ + input_bytes + guard + shift();
  const bool only_root = is_rooted_block(trial_.collective) || trial_.collective == Collective::broadcast;
  if (!in_place_ || (only_root && rank_ != trial_.root)) return;
  u64 before = 0;
  for (u32 rank = 0; rank < rank_; ++rank) before += trial_.counts[rank] * size();
  const bool collects = trial_.collective == Collective::all_gather || trial_.collective == Collective::gather;
  const bool scatters = trial_.collective == Collective::reduce_scatter || trial_.collective == Collective::scatter;
  if (collects)
    input_at_ = output_at_ + before;
  else
    output_at_ = input_at_ + (scatters ? before : 0);
}

void CallRank::lay_out(Communicator* communicator) {
  std::mt19937_64 random(trial_.seed ^ rank_);
  // With one count for all it may be in place on one rank and not on another.
  if (trial_.scattered && !trial_.by_rank && random() % 4 == 0) in_place_ = !in_place_;
  if (has_offsets()) choose_offsets(random);
  const u64 input_bytes = has_offsets() ? extents_[0] * size() : input_of(rank_).size();
  output_bytes_ = has_offsets() ? extents_[1] * size() : expected().size();
  if (trial_.collective == Collective::reduce) output_bytes_ = input_bytes;
  choose_places(input_bytes, random);
  before_.resize(std::max(input_at_ + input_bytes, output_at_ + output_bytes_) + guard);
  for (std::byte& byte : before_) byte = static_cast<std::byte>(random());
  for (const Piece& piece : pieces_in())
    std::copy(piece.bytes.begin(), piece.bytes.end(),
              before_.begin() + static_cast<std::ptrdiff_t>(input_at_ + piece.offset));
  void* allocated = nullptr;
  if (communicator != nullptr && trial_.scattered && random() % 2 == 0)
    if (const auto made = communicator->allocate(before_.size())) allocated = *made;
  if (allocated != nullptr)
    memory_.reset(static_cast<std::byte*>(allocated), [communicator](void* it) { communicator->free_memory(it); });
  else
    memory_.reset(new std::byte[before_.size()], std::default_delete<std::byte[]>());
  std::copy(before_.begin(), before_.end(), memory_.get());
}

Started CallRank::start(Communicator& communicator) {
  const std::byte* in = memory_.get() + input_at_;
  std::byte* out = memory_.get() + output_at_;
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
  return communicator.start_all_to_all_v(in, {counts_[0], offsets_[0]}, out, {counts_[1], offsets_[1]}, trial_.type);
}

std::string CallRank::fault() const {
  const std::span<const std::byte> memory(memory_.get(), before_.size());
  // In place, a reduction may leave rubbish where the output is on ranks that get no result.
  Bytes meant(before_.size());
  if (in_place_ && trial_.collective == Collective::reduce)
    std::fill_n(meant.begin() + static_cast<std::ptrdiff_t>(output_at_), output_bytes_, std::byte{1});
  for (const Piece& piece : pieces_out()) {
    const u64 at = output_at_ + piece.offset;
    std::fill_n(meant.begin() + static_cast<std::ptrdiff_t>(at), piece.bytes.size(), std::byte{1});
    const std::span got = memory.subspan(at, piece.bytes.size());
    for (u64 i = 0; i < piece.bytes.size() / size(); ++i)
      if (!same(trial_.type, piece.bytes, got, i))
        return "rank " + std::to_string(rank_) + ": element " + std::to_string(i + piece.offset / size());
  }
  for (u64 i = 0; i < memory.size(); ++i)
    if (meant[i] == std::byte{0} && memory[i] != before_[i])
      return "rank " + std::to_string(rank_) + ": byte " + std::to_string(i) + ", which is not of the output, changed";
  return {};
}

}  // namespace softib::coll::test
