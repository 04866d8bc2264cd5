// What differs between the versions of PyTorch that this is built with: 1.13 derives backends from ProcessGroup, 2.x
// from Backend, which got new functions now and then.
#pragma once

#include <torch/version.h>

// A preprocessor test for at least that version. Where it isn't known which version brought something, the first one
// whose headers were seen to have it counts: before that PyTorch's own answer stands.
#define SOFTIB_TORCH_FROM(major, minor) \
  (TORCH_VERSION_MAJOR > (major) || (TORCH_VERSION_MAJOR == (major) && TORCH_VERSION_MINOR >= (minor)))

#define SOFTIB_TORCH_2 SOFTIB_TORCH_FROM(2, 0)

#if SOFTIB_TORCH_2
#include <torch/csrc/distributed/c10d/Backend.hpp>
#else
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#endif

#include <torch/csrc/distributed/c10d/Store.hpp>
#include <torch/csrc/distributed/c10d/Types.hpp>
#include <torch/csrc/distributed/c10d/Work.hpp>

// `override` from that version on. What newer versions ask for is there in all of them, so that 1.13's tests run it.
#if SOFTIB_TORCH_FROM(2, 2)  // sparse and coalesced collectives that ProcessGroup's dispatcher calls
#define SOFTIB_OVERRIDES_FROM_2_2 override
#else
#define SOFTIB_OVERRIDES_FROM_2_2
#endif
#if SOFTIB_TORCH_FROM(2, 8)  // abort(), shutdown(), which destroy_process_group() calls, getError()
#define SOFTIB_OVERRIDES_FROM_2_8 override
#else
#define SOFTIB_OVERRIDES_FROM_2_8
#endif
#if SOFTIB_TORCH_FROM(2, 10)  // split(), merge(), getBackendOptions(), setTimeout()
#define SOFTIB_OVERRIDES_FROM_2_10 override
#else
#define SOFTIB_OVERRIDES_FROM_2_10
#endif

namespace softib::pytorch {

#if SOFTIB_TORCH_2
using GroupBase = ::c10d::Backend;
#else
using GroupBase = ::c10d::ProcessGroup;
#endif

// Of a work that stands for several.
#if SOFTIB_TORCH_FROM(2, 2)
constexpr auto coalesced_type = ::c10d::OpType::COALESCED;
#else
constexpr auto coalesced_type = ::c10d::OpType::UNKNOWN;
#endif

// The factor of a premultiplied sum; a tensor's if it was given as one.
template <typename Supplement>
double factor_of(const Supplement& supplement) {
  if constexpr (requires { supplement.tensor_factor; }) {
    if (supplement.tensor_factor.defined()) return supplement.tensor_factor.item().toDouble();
  } else {
    if (!supplement.tensor_factors.empty()) return supplement.tensor_factors[0].item().toDouble();
  }
  return supplement.double_factor;
}

}  // namespace softib::pytorch
