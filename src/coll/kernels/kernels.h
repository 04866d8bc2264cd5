// What collectives do to memory: combine several inputs into one output, scale, copy. Vector code by Google Highway,
// chosen at run time for the processor; every choice gives the same bits.
//
// Rules of all functions:
//   - `count` is in elements. Buffers may begin at any address. count 0 is allowed and touches nothing.
//   - `out` may be the same address as any input, but must not overlap one otherwise.
//   - Integers wrap around, as unsigned ones do in C++.
//   - Half, bfloat16 and the 8-bit floats are widened to float, combined there in the order of the inputs, and rounded
//     once at the end however many inputs there are.
//   - max and min give NaN if any input is NaN, and order -0 below +0, so the order of inputs never matters. NCCL's
//     forget a NaN as long as another rank has a number; here a bad value stays visible.
#pragma once

#include <span>

#include "coll/types.h"

namespace softib::coll::kernels {

// Where results go. Streaming stores pass the caches by: right for long outputs that nobody reads soon, as memory then
// need not be read before it is written.
enum class Stores : u8 { automatic, cached, streaming };

// From this many bytes of output `automatic` means streaming, unless the output is an input too. Below, input and
// output have room in a last-level cache of today, which is quicker still. Whoever works on slices of something longer
// knows better and says so.
inline constexpr u64 streaming_bytes = u64{8} << 20;

// out[i] = inputs[0][i] op inputs[1][i] op ...; at least one input. Op::avg sums and divides by `ranks`, Op::premul_sum
// only sums: see scale(). `ranks` counts for Op::avg alone; 1 where contributions are still missing.
void reduce(DataType type, Op op, void* out, std::span<const void* const> inputs, u64 count, u32 ranks = 1,
            Stores stores = Stores::automatic);

// out[i] = in[i] * scalar, with the scalar of the same type.
void scale(const Scalar& scalar, void* out, const void* in, u64 count, Stores stores = Stores::automatic);

// As memcpy; `out` may be `in`.
void copy(void* out, const void* in, u64 bytes, Stores stores = Stores::automatic);

// The vector instructions in use: "AVX3", "AVX2", "SSE4", "SCALAR", "NEON".
[[nodiscard]] const char* instructions();

}  // namespace softib::coll::kernels
