#include "coll/comm/call.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>

namespace softib::coll {

namespace {

// Bytes of memory that a call uses.
struct Extent {
  const std::byte* begin = nullptr;
  u64 bytes = 0;

  [[nodiscard]] bool overlaps(const Extent& other) const {
    return bytes != 0 && other.bytes != 0 && begin < other.begin + other.bytes && other.begin < begin + bytes;
  }
};

struct Extents {
  Extent in;
  Extent out;
  const std::byte* in_place = nullptr;  // where the smaller one lies if it lies in the larger one
};

constexpr u64 most_bytes = std::numeric_limits<u64>::max() >> 16;

tl::unexpected<Error> bad(const Call& call, const std::string& what) {
  return refuse(Code::invalid_argument, fmt::format("{}: {}", name_of(call.collective), what));
}

bool has_blocks(Collective collective) {
  return collective != Collective::all_reduce && collective != Collective::broadcast &&
         collective != Collective::reduce && collective != Collective::barrier;
}

bool has_root(Collective collective) {
  return collective == Collective::broadcast || collective == Collective::reduce || collective == Collective::gather ||
         collective == Collective::scatter;
}

u64 sum_of(std::span<const u64> counts) { return std::accumulate(counts.begin(), counts.end(), u64{0}); }

u64 whole_count(const Call& call, Seat seat) {
  if (!call.equal) return sum_of(call.counts);
  return has_blocks(call.collective) ? call.count * seat.ranks : call.count;
}

u64 own_count(const Call& call, Seat seat) { return call.equal ? call.count : call.counts[seat.rank]; }

u64 own_offset(const Call& call, Seat seat) {
  return call.equal ? call.count * seat.rank : sum_of(call.counts.first(seat.rank));
}

u64 end_of(std::span<const u64> counts, std::span<const u64> offsets) {
  u64 end = 0;
  for (std::size_t i = 0; i < counts.size(); ++i)
    if (counts[i] != 0) end = std::max(end, offsets[i] + counts[i]);
  return end;
}

Extents extents_of(const Call& call, Seat seat) {
  const u64 size = size_of(call.type);
  const auto* in = static_cast<const std::byte*>(call.in);
  const auto* out = static_cast<const std::byte*>(call.out);
  const bool root = seat.rank == call.root;
  const u64 whole = whole_count(call, seat) * size;
  switch (call.collective) {
    case Collective::barrier:
      return {};
    case Collective::all_reduce:
      return {{in, whole}, {out, whole}, out};
    case Collective::broadcast:
      return {{in, root ? whole : 0}, {out, whole}, out};
    case Collective::reduce:
      return {{in, whole}, {out, root ? whole : 0}, out};
    case Collective::all_to_all:
      if (!call.equal)
        return {{in, end_of(call.counts, call.offsets) * size},
                {out, end_of(call.received, call.received_offsets) * size},
                out};
      return {{in, whole}, {out, whole}, out};
    default:
      break;
  }
  const u64 own = own_count(call, seat) * size;
  const u64 offset = own_offset(call, seat) * size;
  const bool collects = call.collective == Collective::all_gather || call.collective == Collective::gather;
  const bool both = root || call.collective == Collective::all_gather || call.collective == Collective::reduce_scatter;
  if (collects) return {{in, own}, {out, both ? whole : 0}, both ? out + offset : nullptr};
  return {{in, both ? whole : 0}, {out, own}, both ? out - offset : nullptr};
}

bool lies_in_place(const Extents& extents) {
  return extents.in.bytes != 0 && extents.out.bytes != 0 && extents.in.begin == extents.in_place;
}

// Offsets and counts that a 64-bit number of bytes can't hold, or no memory can.
bool is_huge(const Call& call, Seat seat) {
  const u64 most = most_bytes / size_of(call.type) / seat.ranks;
  const auto above = [most](u64 number) { return number > most; };
  if (call.equal) return above(call.count);
  for (const std::span<const u64> list : {call.counts, call.offsets, call.received, call.received_offsets})
    if (std::any_of(list.begin(), list.end(), above)) return true;
  return false;
}

Outcome<void> check_lists(const Call& call, Seat seat) {
  const bool exchange = call.collective == Collective::all_to_all;
  if (call.counts.size() != seat.ranks)
    return bad(call, fmt::format("{} counts for {} ranks", call.counts.size(), seat.ranks));
  if (!exchange) return {};
  if (call.offsets.size() != seat.ranks || call.received.size() != seat.ranks ||
      call.received_offsets.size() != seat.ranks)
    return bad(call, fmt::format("counts and offsets are not those of {} ranks", seat.ranks));
  if (call.counts[seat.rank] != call.received[seat.rank])
    return bad(call, fmt::format("rank {} sends itself {} elements and expects {}", seat.rank, call.counts[seat.rank],
                                 call.received[seat.rank]));
  return {};
}

bool same_list(std::span<const u64> a, std::span<const u64> b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end());
}

// Received parts that lie one upon the other would depend on what comes first.
bool parts_overlap(std::span<const u64> counts, std::span<const u64> offsets) {
  std::vector<Range> parts;
  for (std::size_t i = 0; i < counts.size(); ++i)
    if (counts[i] != 0) parts.push_back({offsets[i], counts[i]});
  std::sort(parts.begin(), parts.end(), [](const Range& a, const Range& b) { return a.offset < b.offset; });
  for (std::size_t i = 1; i < parts.size(); ++i)
    if (parts[i].offset < parts[i - 1].end()) return true;
  return false;
}

Outcome<bool> check_memory(const Call& call, Seat seat) {
  const Extents extents = extents_of(call, seat);
  if (extents.in.bytes != 0 && call.in == nullptr) return bad(call, "the input is a null pointer");
  if (extents.out.bytes != 0 && call.out == nullptr) return bad(call, "the output is a null pointer");
  const bool exchange = call.collective == Collective::all_to_all && !call.equal;
  if (exchange && parts_overlap(call.received, call.received_offsets))
    return bad(call, "received parts overlap each other");
  if (!extents.in.overlaps(extents.out)) return false;
  if (!lies_in_place(extents)) return bad(call, "input and output overlap, but not as they do in place");
  if (exchange && (!same_list(call.counts, call.received) || !same_list(call.offsets, call.received_offsets)))
    return bad(call, "in place, counts and offsets of what is sent and received are the same");
  return true;
}

Range offset_range(std::span<const u64> counts, std::span<const u64> offsets, std::size_t i) {
  return {counts[i] == 0 ? 0 : offsets[i], counts[i]};
}

Blocks placed(std::span<const u64> counts, std::span<const u64> offsets) {
  Blocks blocks;
  for (std::size_t i = 0; i < counts.size(); ++i) blocks.push_back(offset_range(counts, offsets, i));
  return blocks;
}

u64 list_hash(std::span<const u64> list) {
  u64 hash = list.size();
  for (const u64 value : list) hash = (hash ^ value) * 0x9e3779b97f4a7c15 + (hash >> 29);
  return hash;
}

// The commonest calls, quickly: those of which nothing is wrong, apart from each other or in place.
std::optional<bool> quick_check(const Call& call, Seat seat) {
  if (call.collective != Collective::all_reduce || call.op >= Op::premul_sum || call.in == nullptr ||
      call.out == nullptr || call.count > most_bytes / 8 / seat.ranks ||
      static_cast<u8>(call.type) >= type_table.size())
    return std::nullopt;
  if (call.in == call.out) return call.count != 0;
  const u64 bytes = call.count * size_of(call.type);
  const auto distance = static_cast<const std::byte*>(call.out) - static_cast<const std::byte*>(call.in);
  const u64 apart = static_cast<u64>(distance < 0 ? -distance : distance);
  return apart >= bytes ? std::optional(false) : std::nullopt;
}

}  // namespace

Outcome<bool> check(const Call& call, Seat seat) {
  if (const std::optional<bool> in_place = quick_check(call, seat)) return *in_place;
  if (has_root(call.collective) && call.root >= seat.ranks)
    return bad(call, fmt::format("root {} of {} ranks", call.root, seat.ranks));
  if (static_cast<u8>(call.type) >= type_table.size()) return bad(call, "no such element type");
  if (static_cast<u8>(call.op) >= op_names.size()) return bad(call, "no such operator");
  if (call.op == Op::premul_sum && call.factor.type() != call.type)
    return bad(call,
               fmt::format("the factor is {}, the elements are {}", name_of(call.factor.type()), name_of(call.type)));
  if (!call.equal)
    if (auto checked = check_lists(call, seat); !checked) return tl::unexpected(checked.error());
  if (is_huge(call, seat)) return bad(call, "more than fits into memory");
  return check_memory(call, seat);
}

void plan_scaling(const Call& call, Seat seat, Shape& shape, Work& work) {
  const bool scatters = call.collective == Collective::reduce_scatter;
  work.factor = call.factor;
  work.scaled_count = scatters ? whole_count(call, seat) : call.count;
  shape.in_place = !scatters && (call.collective == Collective::all_reduce || seat.rank == call.root);
  work.scaled = shape.in_place ? call.out : nullptr;
}

Problem problem_of(const Call& call, const Shape& shape, Seat seat) {
  Problem problem;
  problem.group = {seat.ranks, seat.rank, {}};
  problem.root = call.root;
  problem.in_place = shape.in_place;
  problem.granule = std::max<u64>(1, 64 / shape.element);
  if (call.collective == Collective::barrier) return problem;
  if (call.collective == Collective::all_to_all && !call.equal) {
    problem.input = placed(call.counts, call.offsets);
    problem.output = placed(call.received, call.received_offsets);
    return problem;
  }
  const Blocks whole{{0, call.count}};
  if (!has_blocks(call.collective)) {
    problem.input = problem.output = whole;
    return problem;
  }
  const Blocks blocks = call.equal ? equal_blocks(seat.ranks, call.count) : blocks_of(call.counts);
  const Blocks own{{0, own_count(call, seat)}};
  const bool root = seat.rank == call.root;
  const bool collects = call.collective == Collective::all_gather || call.collective == Collective::gather;
  const bool scatters = call.collective == Collective::reduce_scatter || call.collective == Collective::scatter;
  problem.input = collects ? own : blocks;
  problem.output = scatters ? own : blocks;
  if (call.collective == Collective::gather && !root) problem.output.clear();
  if (call.collective == Collective::scatter && !root) problem.input.clear();
  return problem;
}

Question question_of(const Call& call, Seat seat) {
  Question question{call.collective, 0, true, call.equal};
  question.known = call.equal || call.collective != Collective::all_to_all;
  if (question.known) question.bytes = whole_count(call, seat) * size_of(call.type);
  return question;
}

CallDigest digest_of(const Call& call, u64 number) {
  const bool known = call.equal || call.collective != Collective::all_to_all;
  CallDigest digest;
  digest.number = number;
  digest.count = call.equal ? call.count : 0;
  digest.list = call.equal || !known ? 0 : list_hash(call.counts);
  digest.root = call.root;
  digest.collective = call.collective;
  digest.type = call.type;
  digest.op = call.op;
  return digest;
}

std::string text_of(const CallDigest& digest) {
  std::string text(name_of(digest.collective));
  if (digest.collective == Collective::barrier) return text;
  text += digest.list == 0 ? fmt::format(" of {}", digest.count) : std::string(" of counts by rank");
  text += fmt::format(" {}", name_of(digest.type));
  const bool reduces = digest.collective == Collective::all_reduce || digest.collective == Collective::reduce ||
                       digest.collective == Collective::reduce_scatter;
  if (reduces) text += fmt::format(", {}", name_of(digest.op));
  if (has_root(digest.collective)) text += fmt::format(", root {}", digest.root);
  return text;
}

}  // namespace softib::coll
