// Element types and reduction operators of collectives. The values are those of NCCL's ncclDataType_t and ncclRedOp_t,
// so that a C API shaped like it converts by a cast.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <string_view>

#include "base/types.h"

namespace softib::coll {

enum class DataType : u8 {
  int8 = 0,
  uint8 = 1,
  int32 = 2,
  uint32 = 3,
  int64 = 4,
  uint64 = 5,
  float16 = 6,
  float32 = 7,
  float64 = 8,
  bfloat16 = 9,
  float8_e4m3 = 10,
  float8_e5m2 = 11,
};

// `avg` is the sum divided by the number of ranks; for integers the quotient is cut towards zero.
// `premul_sum` is the sum of what each rank gives times that rank's own scalar (NCCL: ncclRedOpCreatePreMulSum).
enum class Op : u8 { sum = 0, prod = 1, max = 2, min = 3, avg = 4, premul_sum = 5 };

struct TypeRow {
  DataType type;
  u8 size;  // bytes
  bool floating;
  std::string_view name;  // as nccl-tests prints it
};

inline constexpr std::array<TypeRow, 12> type_table{{
    {DataType::int8, 1, false, "int8"},
    {DataType::uint8, 1, false, "uint8"},
    {DataType::int32, 4, false, "int32"},
    {DataType::uint32, 4, false, "uint32"},
    {DataType::int64, 8, false, "int64"},
    {DataType::uint64, 8, false, "uint64"},
    {DataType::float16, 2, true, "half"},
    {DataType::float32, 4, true, "float"},
    {DataType::float64, 8, true, "double"},
    {DataType::bfloat16, 2, true, "bfloat16"},
    {DataType::float8_e4m3, 1, true, "f8e4m3"},
    {DataType::float8_e5m2, 1, true, "f8e5m2"},
}};

inline constexpr std::array<std::string_view, 6> op_names{"sum", "prod", "max", "min", "avg", "mulsum"};

[[nodiscard]] constexpr const TypeRow& row_of(DataType type) { return type_table[static_cast<u8>(type)]; }
[[nodiscard]] constexpr u64 size_of(DataType type) { return row_of(type).size; }  // bytes
[[nodiscard]] constexpr bool is_floating(DataType type) { return row_of(type).floating; }
[[nodiscard]] constexpr std::string_view name_of(DataType type) { return row_of(type).name; }
[[nodiscard]] constexpr std::string_view name_of(Op op) { return op_names[static_cast<u8>(op)]; }

// "half", "f8e4m3", "sum", "prod": exactly as printed; nothing for other words.
[[nodiscard]] std::optional<DataType> type_from_name(std::string_view name);
[[nodiscard]] std::optional<Op> op_from_name(std::string_view name);

// One value of any element type, in that type's own form: what premul_sum multiplies by.
class Scalar {
 public:
  Scalar() = default;
  // Copies size_of(type) bytes from `value`.
  static Scalar of(DataType type, const void* value);
  // The nearest value of the type; integers are cut towards zero. `value` must be in the type's range.
  static Scalar from_number(DataType type, double value);

  [[nodiscard]] DataType type() const { return type_; }
  [[nodiscard]] const void* bytes() const { return bytes_.data(); }
  // Exact for floating types; integers beyond 2^53 are rounded.
  [[nodiscard]] double number() const;
  // An integer's bits, extended with zeros.
  [[nodiscard]] u64 bits() const;

 private:
  DataType type_ = DataType::float32;
  alignas(8) std::array<std::byte, 8> bytes_{};
};

}  // namespace softib::coll
