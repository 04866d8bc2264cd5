// What differs between the versions of PyTorch that this is built with: 1.13 derives backends from ProcessGroup, 2.x
// from Backend, and their arguments changed here and there.
#pragma once

#include <torch/version.h>

#if TORCH_VERSION_MAJOR >= 2
#define SOFTIB_TORCH_2 1
#include <torch/csrc/distributed/c10d/Backend.hpp>
#else
#define SOFTIB_TORCH_2 0
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#endif

#include <torch/csrc/distributed/c10d/Store.hpp>
#include <torch/csrc/distributed/c10d/Types.hpp>
#include <torch/csrc/distributed/c10d/Work.hpp>

namespace softib::pytorch {

#if SOFTIB_TORCH_2
using GroupBase = ::c10d::Backend;
#else
using GroupBase = ::c10d::ProcessGroup;
#endif

// The factor of a premultiplied sum; a tensor's if it was given as one.
inline double factor_of(const ::c10d::NCCLPreMulSumSupplement& supplement) {
#if SOFTIB_TORCH_2
  if (supplement.tensor_factor.defined()) return supplement.tensor_factor.item().toDouble();
#else
  if (!supplement.tensor_factors.empty()) return supplement.tensor_factors[0].item().toDouble();
#endif
  return supplement.double_factor;
}

}  // namespace softib::pytorch
