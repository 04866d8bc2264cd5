#include "pytorch/tensors.h"

#include <cstring>
#include <optional>

namespace softib::pytorch {

using at::ScalarType;
using coll::DataType;
using ReduceType = ::c10d::ReduceOp::RedOpType;

void check_tensor(const at::Tensor& tensor) {
  TORCH_CHECK(tensor.defined(), "softib: a tensor is undefined");
  TORCH_CHECK(tensor.device().is_cpu(), "softib: tensors must be in the processor's memory, not on ", tensor.device());
  TORCH_CHECK(!tensor.is_sparse() && tensor.layout() == at::kStrided, "softib: this needs a dense tensor");
}

void check_tensors(const Tensors& tensors) {
  for (const at::Tensor& tensor : tensors) check_tensor(tensor);
}

u64 bytes_of(const at::Tensor& tensor) { return static_cast<u64>(tensor.numel()) * tensor.element_size(); }

u64 bytes_of(const Tensors& tensors) {
  u64 bytes = 0;
  for (const at::Tensor& tensor : tensors) bytes += bytes_of(tensor);
  return bytes;
}

Contiguous::Contiguous(const at::Tensor& tensor, Use use) : tensor_(tensor), use_(use) {
  check_tensor(tensor);
  if (tensor.is_contiguous())
    work_ = tensor;
  else
    work_ = use == Use::write ? at::empty(tensor.sizes(), tensor.options()) : tensor.contiguous();
}

void Contiguous::finish() const {
  if (use_ != Use::read && !work_.is_same(tensor_)) tensor_.copy_(work_);
}

namespace {

bool adjoin(const Tensors& tensors) {
  const char* at = nullptr;
  for (const at::Tensor& tensor : tensors) {
    if (!tensor.is_contiguous()) return false;
    if (tensor.numel() == 0) continue;
    const char* memory = static_cast<const char*>(tensor.data_ptr());
    if (at != nullptr && memory != at) return false;
    at = memory + bytes_of(tensor);
  }
  return true;
}

char* first_memory(const Tensors& tensors) {
  for (const at::Tensor& tensor : tensors)
    if (tensor.numel() != 0) return static_cast<char*>(tensor.data_ptr());
  return nullptr;
}

}  // namespace

Flat::Flat(const Tensors& tensors, Contiguous::Use use) : tensors_(tensors), use_(use), bytes_(bytes_of(tensors)) {
  check_tensors(tensors);
  if (adjoin(tensors)) {
    memory_ = first_memory(tensors);
    return;
  }
  copy_ = at::empty({static_cast<i64>(bytes_)}, at::TensorOptions().dtype(at::kByte));
  memory_ = copy_.data_ptr();
  if (use == Contiguous::Use::write) return;
  char* at = static_cast<char*>(memory_);
  for (const at::Tensor& tensor : tensors) {
    const at::Tensor whole = tensor.contiguous();
    if (whole.numel() != 0) std::memcpy(at, whole.data_ptr(), bytes_of(whole));
    at += bytes_of(whole);
  }
}

void Flat::finish() const {
  if (use_ == Contiguous::Use::read || !copy_.defined()) return;
  const char* at = static_cast<const char*>(memory_);
  for (const at::Tensor& tensor : tensors_) {
    const Contiguous whole(tensor, Contiguous::Use::write);
    if (tensor.numel() != 0) std::memcpy(whole.memory(), at, bytes_of(tensor));
    whole.finish();
    at += bytes_of(tensor);
  }
}

namespace {

std::optional<DataType> data_type_of(ScalarType type) {
  switch (type) {
    case ScalarType::Char:
      return DataType::int8;
    case ScalarType::Byte:
    case ScalarType::Bool:
      return DataType::uint8;
    case ScalarType::Int:
      return DataType::int32;
    case ScalarType::Long:
      return DataType::int64;
    case ScalarType::Half:
      return DataType::float16;
    case ScalarType::Float:
      return DataType::float32;
    case ScalarType::Double:
      return DataType::float64;
    case ScalarType::BFloat16:
      return DataType::bfloat16;
#if SOFTIB_TORCH_FROM(2, 1)
    case ScalarType::Float8_e4m3fn:
      return DataType::float8_e4m3;
    case ScalarType::Float8_e5m2:
      return DataType::float8_e5m2;
#endif
#if SOFTIB_TORCH_FROM(2, 3)
    case ScalarType::UInt32:
      return DataType::uint32;
    case ScalarType::UInt64:
      return DataType::uint64;
#endif
    default:
      return std::nullopt;
  }
}

// The type in whose elements another one is combined.
ScalarType combined_as(ScalarType type, ReduceType op) {
  if (type == ScalarType::Short) return ScalarType::Int;
#if SOFTIB_TORCH_FROM(2, 3)
  if (type == ScalarType::UInt16) return ScalarType::Int;
#endif
  if (!at::isComplexType(type)) return type;
  TORCH_CHECK(op == ReduceType::SUM || op == ReduceType::AVG || op == ReduceType::PREMUL_SUM,
              "softib: complex numbers are summed or averaged, nothing else");
  return at::toRealValueType(type);
}

coll::Op op_of(ReduceType op, ScalarType type) {
  // As numbers, truths are 0 and 1: their sum is "or", as NCCL has it; there is no mean of them.
  const bool truth = type == ScalarType::Bool;
  TORCH_CHECK(!truth || (op != ReduceType::AVG && op != ReduceType::PREMUL_SUM), "softib: no mean of bool");
  switch (op) {
    case ReduceType::SUM:
      return truth ? coll::Op::max : coll::Op::sum;
    case ReduceType::AVG:
      return coll::Op::avg;
    case ReduceType::PRODUCT:
      return truth ? coll::Op::min : coll::Op::prod;
    case ReduceType::MIN:
      return coll::Op::min;
    case ReduceType::MAX:
      return coll::Op::max;
    case ReduceType::PREMUL_SUM:
      return coll::Op::premul_sum;
    default:
      TORCH_CHECK(false, "softib: no such reduction");
  }
}

bool is_bitwise(ReduceType op) { return op == ReduceType::BAND || op == ReduceType::BOR || op == ReduceType::BXOR; }

}  // namespace

Combining combining_of(const ::c10d::ReduceOp& op, ScalarType type) {
  Combining combining;
  combining.op = op;
  combining.given = type;
  combining.bitwise = is_bitwise(combining.op);
  if (combining.bitwise) {
    TORCH_CHECK(at::isIntegralType(type, true), "softib: bitwise reductions are for integers, not for ", type);
    combining.as = type;
    return combining;
  }
  combining.as = combined_as(type, combining.op);
  const std::optional<DataType> data = data_type_of(combining.as);
  TORCH_CHECK(data, "softib: ", type, " can't be reduced");
  combining.reduction = {*data, op_of(combining.op, type), {}};
  if (combining.op == ReduceType::PREMUL_SUM) {
    const auto* supplement = dynamic_cast<const ::c10d::NCCLPreMulSumSupplement*>(op.supplement_.get());
    TORCH_CHECK(supplement != nullptr, "softib: a premultiplied sum without its factor");
    combining.reduction.factor = coll::Scalar::from_number(*data, factor_of(*supplement));
  }
  return combining;
}

at::Tensor widened(const at::Tensor& tensor, const Combining& combining) {
  if (at::isComplexType(combining.given) && !combining.bitwise) return at::view_as_real(tensor);
  return combining.as == combining.given ? tensor : tensor.to(combining.as);
}

void narrow_into(const at::Tensor& tensor, const at::Tensor& wide) {
  if (tensor.scalar_type() != wide.scalar_type() && !tensor.is_complex()) tensor.copy_(wide);
}

void combine_rows(const at::Tensor& rows, const at::Tensor& out, ReduceType op) {
  out.copy_(rows[0]);
  for (i64 row = 1; row < rows.size(0); ++row) {
    if (op == ReduceType::BAND)
      out.bitwise_and_(rows[row]);
    else if (op == ReduceType::BOR)
      out.bitwise_or_(rows[row]);
    else
      out.bitwise_xor_(rows[row]);
  }
}

}  // namespace softib::pytorch
