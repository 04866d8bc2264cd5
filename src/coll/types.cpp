#include "coll/types.h"

#include <cstring>

#include "coll/narrow_floats.h"

namespace softib::coll {

namespace {

template <typename T>
T value_at(const void* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof value);
  return value;
}

template <typename T>
Scalar scalar_of(DataType type, T value) {
  return Scalar::of(type, &value);
}

}  // namespace

std::optional<DataType> type_from_name(std::string_view name) {
  for (const TypeRow& row : type_table)
    if (row.name == name) return row.type;
  return std::nullopt;
}

std::optional<Op> op_from_name(std::string_view name) {
  for (std::size_t i = 0; i < op_names.size(); ++i)
    if (op_names[i] == name) return static_cast<Op>(i);
  return std::nullopt;
}

Scalar Scalar::of(DataType type, const void* value) {
  Scalar scalar;
  scalar.type_ = type;
  std::memcpy(scalar.bytes_.data(), value, size_of(type));
  return scalar;
}

Scalar Scalar::from_number(DataType type, double value) {
  switch (type) {
    case DataType::int8:
      return scalar_of(type, static_cast<std::int8_t>(value));
    case DataType::uint8:
      return scalar_of(type, static_cast<u8>(value));
    case DataType::int32:
      return scalar_of(type, static_cast<i32>(value));
    case DataType::uint32:
      return scalar_of(type, static_cast<u32>(value));
    case DataType::int64:
      return scalar_of(type, static_cast<i64>(value));
    case DataType::uint64:
      return scalar_of(type, static_cast<u64>(value));
    case DataType::float16:
      return scalar_of(type, to_half(static_cast<float>(value)));
    case DataType::float32:
      return scalar_of(type, static_cast<float>(value));
    case DataType::float64:
      return scalar_of(type, value);
    case DataType::bfloat16:
      return scalar_of(type, to_bfloat16(static_cast<float>(value)));
    case DataType::float8_e4m3:
      return scalar_of(type, to_e4m3(static_cast<float>(value)));
    case DataType::float8_e5m2:
      return scalar_of(type, to_e5m2(static_cast<float>(value)));
  }
  return {};
}

double Scalar::number() const {
  switch (type_) {
    case DataType::int8:
      return value_at<std::int8_t>(bytes());
    case DataType::uint8:
      return value_at<u8>(bytes());
    case DataType::int32:
      return value_at<i32>(bytes());
    case DataType::uint32:
      return value_at<u32>(bytes());
    case DataType::int64:
      return static_cast<double>(value_at<i64>(bytes()));
    case DataType::uint64:
      return static_cast<double>(value_at<u64>(bytes()));
    case DataType::float16:
      return from_half(value_at<u16>(bytes()));
    case DataType::float32:
      return value_at<float>(bytes());
    case DataType::float64:
      return value_at<double>(bytes());
    case DataType::bfloat16:
      return from_bfloat16(value_at<u16>(bytes()));
    case DataType::float8_e4m3:
      return from_e4m3(value_at<u8>(bytes()));
    case DataType::float8_e5m2:
      return from_e5m2(value_at<u8>(bytes()));
  }
  return 0;
}

u64 Scalar::bits() const { return value_at<u64>(bytes_.data()); }

}  // namespace softib::coll
