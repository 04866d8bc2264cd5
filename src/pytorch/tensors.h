// Tensors and PyTorch's reductions as the collectives want them: contiguous memory of an element type that they know.
#pragma once

#include <ATen/ATen.h>

#include <cstddef>
#include <vector>

#include "coll/communicator.h"
#include "pytorch/version.h"

namespace softib::pytorch {

using Tensors = std::vector<at::Tensor>;

// Throws where a tensor isn't dense and in the processor's memory.
void check_tensor(const at::Tensor& tensor);
void check_tensors(const Tensors& tensors);

// Bytes of its elements.
[[nodiscard]] u64 bytes_of(const at::Tensor& tensor);
[[nodiscard]] u64 bytes_of(const Tensors& tensors);

// A tensor of which a collective reads, or into which it writes, contiguous memory: its own or a copy's.
class Contiguous {
 public:
  enum class Use : u8 { read, write, both };

  Contiguous(const at::Tensor& tensor, Use use);
  [[nodiscard]] void* memory() const { return work_.data_ptr(); }
  [[nodiscard]] const at::Tensor& tensor() const { return work_; }
  // Once it has been written: puts what is in the copy where it belongs.
  void finish() const;

 private:
  at::Tensor tensor_;
  at::Tensor work_;
  Use use_;
};

// Several tensors, of any types, one after the other in one piece of memory: their own if they lie like that already.
class Flat {
 public:
  Flat(const Tensors& tensors, Contiguous::Use use);
  [[nodiscard]] void* memory() const { return memory_; }
  [[nodiscard]] u64 bytes() const { return bytes_; }
  void finish() const;

 private:
  Tensors tensors_;
  Contiguous::Use use_;
  at::Tensor copy_;  // undefined: they adjoin
  void* memory_ = nullptr;
  u64 bytes_ = 0;
};

// A reduction as it is carried out: element type and operator of the collective, and what isn't known there.
struct Combining {
  coll::Reduction reduction;
  // The collectives know no such operator: every part is moved, and combined where it is wanted.
  bool bitwise = false;
  ::c10d::ReduceOp::RedOpType op = ::c10d::ReduceOp::SUM;
  // Elements are combined as these instead: 16-bit integers as int32, complex numbers as pairs.
  at::ScalarType as = at::ScalarType::Float;
  at::ScalarType given = at::ScalarType::Float;
};

// Throws for types and operators that don't go together.
[[nodiscard]] Combining combining_of(const ::c10d::ReduceOp& op, at::ScalarType type);

// The tensor as combining.as; the tensor itself, or a view of it, if it can be.
[[nodiscard]] at::Tensor widened(const at::Tensor& tensor, const Combining& combining);
// What came of it, where it is wanted: nothing to do for the tensor itself and for views.
void narrow_into(const at::Tensor& tensor, const at::Tensor& wide);

// Bitwise and, or, exclusive or of rows of equal size.
void combine_rows(const at::Tensor& rows, const at::Tensor& out, ::c10d::ReduceOp::RedOpType op);

}  // namespace softib::pytorch
