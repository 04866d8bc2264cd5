// What the public functions hand to the vector code of each group of operators.
#pragma once

#include "coll/kernels/kernels.h"

// Vectors are members of structs here, which Arm's SVE, with sizes known at run time only, doesn't allow. SSSE3 alone
// is no longer met with.
#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_SSSE3)

namespace softib::coll::kernels {

// What happens to a sum before it is stored. Integers know `multiply` only.
enum class Finish : u8 { nothing, multiply, divide };

struct Job {
  DataType type;
  Op op;
  void* out;
  const void* const* inputs;
  std::size_t input_count;
  u64 count;  // elements
  bool streaming;
  Finish finish = Finish::nothing;
  Scalar factor{};    // of `type`
  double number = 0;  // the same, for floating types; exact where the type is narrow
};

void run_arithmetic(const Job& job);  // sum, prod, avg, premul_sum
void run_extremes(const Job& job);    // max, min
void stream_bytes(void* out, const void* in, u64 bytes);

}  // namespace softib::coll::kernels
