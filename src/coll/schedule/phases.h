// What collectives are composed of. Each phase appends rounds to a builder; blocks are numbered by index in the group.
#pragma once

#include <functional>

#include "coll/schedule/partners.h"
#include "coll/schedule/problem.h"

namespace softib::coll {

using Place = std::function<Span(u32 block)>;
using RangePlace = std::function<Span(u32 first, u32 last)>;  // of adjoining blocks

// What remains of a collective of one member: its input is the result. Barriers have none.
[[nodiscard]] Schedule copy_of_input(const Problem& problem);

// My block of the reduction comes to lie at partial(index). `own` is where my contributions lie, `partial` where what
// is not yet complete may; with `complete` nothing else comes to the result.
//
// Ring: n - 1 rounds of one block. partial(j) may share memory with partial(j + 2).
void ring_reduce_scatter(Builder& builder, const Group& group, const Place& own, const Place& partial, bool complete);
// All at once: one round of n - 1 blocks and one combination of n, which rounds once. Blocks are lent if nothing writes
// them later but what their owner sends then.
enum class Lending : u8 { no, yes };
void direct_reduce_scatter(Builder& builder, const Group& group, const Place& own, Span result, bool complete,
                           Lending lending);

// All blocks come to lie at place(j); mine is at `own`, which may be place(index) or not, and is copied there or not.
void ring_all_gather(Builder& builder, const Group& group, Span own, const Place& place);
void direct_all_gather(Builder& builder, const Group& group, Span own, const Place& place);

// Over the core of a fold: `own` and `partial` as above, for ranges of places. The last combination goes to `last`; it
// is of the last range of `rounds`.
void halving_reduce_scatter(Builder& builder, const Group& group, const Fold& fold, std::span<const Halving> rounds,
                            const RangePlace& own, const RangePlace& partial, const RangePlace& last, bool complete);
// The same backwards: from the last range to all.
void doubling_all_gather(Builder& builder, const Group& group, const Fold& fold, std::span<const Halving> rounds,
                         const RangePlace& place);

// All-reduce of `whole`, from `own` to `result`; spans of one length. In place they may be one span.
void ring_all_reduce(Builder& builder, const Group& group, Span own, Span result, u64 granule, bool complete);
void halving_doubling_all_reduce(Builder& builder, const Group& group, Span own, Span result, u64 granule,
                                 bool complete);

// The root's `whole` to everybody's.
void direct_broadcast(Builder& builder, const Group& group, u32 root, Span whole);
// To the root's `result`. Others lend `own`: only what the root sends later may write it.
void direct_reduce(Builder& builder, const Group& group, u32 root, Span own, Span result, bool complete);
// Of `own` at all members. What comes back is where the sum lies: of the subtree, at the root of all. `result` is only
// used at the root.
Span binomial_reduce(Builder& builder, const Group& group, u32 root, Span own, Span result, bool complete);
void binomial_broadcast(Builder& builder, const Group& group, u32 root, Span whole);

}  // namespace softib::coll
