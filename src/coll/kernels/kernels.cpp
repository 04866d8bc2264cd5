#include "coll/kernels/kernels.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <cstring>
#include <vector>

#include "coll/kernels/dispatch.h"

namespace softib::coll::kernels {

namespace {

bool streams(Stores stores, u64 bytes) {
  return stores == Stores::streaming || (stores == Stores::automatic && bytes >= streaming_bytes);
}

bool is_among(const void* out, std::span<const void* const> inputs) {
  return std::find(inputs.begin(), inputs.end(), out) != inputs.end();
}

// By a power of two, multiplying gives the same bits as dividing, and is quicker.
void finish_average(Job& job, u32 ranks) {
  const bool power = std::has_single_bit(ranks);
  job.finish = power ? Finish::multiply : Finish::divide;
  job.number = power ? 1.0 / ranks : ranks;
}

template <typename T>
T quotient(T value, u32 divisor) {
  return static_cast<T>(value / static_cast<std::conditional_t<sizeof(T) == 8, T, i64>>(divisor));
}

template <typename T, typename F>
void change_each(void* values, u64 count, const F& change) {
  auto* bytes = static_cast<std::byte*>(values);
  for (u64 i = 0; i < count; ++i) {
    T value;
    std::memcpy(&value, bytes + i * sizeof value, sizeof value);
    value = change(value);
    std::memcpy(bytes + i * sizeof value, &value, sizeof value);
  }
}

template <typename T>
void divide_each(void* values, u64 count, u32 divisor) {
  if constexpr (sizeof(T) == 1) {  // few values, so divide each once
    std::array<T, 256> quotients;
    for (u32 i = 0; i < 256; ++i) quotients[i] = quotient(static_cast<T>(i), divisor);
    change_each<T>(values, count, [&quotients](T value) { return quotients[static_cast<u8>(value)]; });
  } else {
    change_each<T>(values, count, [divisor](T value) { return quotient(value, divisor); });
  }
}

void divide_integers(DataType type, void* values, u64 count, u32 ranks) {
  switch (type) {
    case DataType::int8:
      return divide_each<std::int8_t>(values, count, ranks);
    case DataType::uint8:
      return divide_each<u8>(values, count, ranks);
    case DataType::int32:
      return divide_each<i32>(values, count, ranks);
    case DataType::uint32:
      return divide_each<u32>(values, count, ranks);
    case DataType::int64:
      return divide_each<i64>(values, count, ranks);
    case DataType::uint64:
      return divide_each<u64>(values, count, ranks);
    default:
      assert(false);
  }
}

// Sum and quotient piece by piece, so that the quotient finds the sum in the cache.
void average_integers(const Job& whole, u32 ranks) {
  constexpr u64 piece = 2048;
  std::vector<const void*> inputs(whole.inputs, whole.inputs + whole.input_count);
  Job job = whole;
  job.inputs = inputs.data();
  job.streaming = false;
  auto* out = static_cast<std::byte*>(whole.out);
  for (u64 at = 0; at < whole.count; at += piece) {
    job.count = std::min(piece, whole.count - at);
    job.out = out + at * size_of(job.type);
    for (std::size_t i = 0; i < inputs.size(); ++i)
      inputs[i] = static_cast<const std::byte*>(whole.inputs[i]) + at * size_of(job.type);
    run_arithmetic(job);
    divide_integers(job.type, job.out, job.count, ranks);
  }
}

}  // namespace

void reduce(DataType type, Op op, void* out, std::span<const void* const> inputs, u64 count, u32 ranks, Stores stores) {
  assert(!inputs.empty() && ranks != 0);
  if (count == 0) return;
  const u64 bytes = count * size_of(type);
  const bool averages = op == Op::avg && ranks != 1;
  if (inputs.size() == 1 && !averages) return copy(out, inputs[0], bytes, stores);
  Job job{type, op, out, inputs.data(), inputs.size(), count, streams(stores, bytes) && !is_among(out, inputs)};
  if (op == Op::max || op == Op::min) return run_extremes(job);
  if (averages && !is_floating(type)) return average_integers(job, ranks);
  if (averages) finish_average(job, ranks);
  run_arithmetic(job);
}

void scale(const Scalar& scalar, void* out, const void* in, u64 count, Stores stores) {
  if (count == 0) return;
  const bool streaming = streams(stores, count * size_of(scalar.type())) && out != in;
  Job job{scalar.type(), Op::sum, out, &in, 1, count, streaming, Finish::multiply, scalar};
  if (is_floating(scalar.type())) job.number = scalar.number();
  run_arithmetic(job);
}

void copy(void* out, const void* in, u64 bytes, Stores stores) {
  if (out == in || bytes == 0) return;
  if (streams(stores, bytes))
    stream_bytes(out, in, bytes);
  else
    std::memcpy(out, in, bytes);
}

}  // namespace softib::coll::kernels
