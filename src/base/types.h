// Fixed-width integer names and the result type that every layer uses.
#pragma once

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <tl/expected.hpp>

namespace softib {

using u8 = std::uint8_t;
using u16 = std::uint16_t;
using u32 = std::uint32_t;
using u64 = std::uint64_t;
using i32 = std::int32_t;
using i64 = std::int64_t;

// An errno value that is known to be an error; never 0.
enum class Errno : int {};

// What a fallible operation gives: a value, or the errno that the kernel would give.
template <typename T>
using Result = tl::expected<T, Errno>;

[[nodiscard]] inline tl::unexpected<Errno> fail(int error) { return tl::unexpected<Errno>(static_cast<Errno>(error)); }

[[nodiscard]] inline tl::unexpected<Errno> fail(Errno error) { return tl::unexpected<Errno>(error); }

[[nodiscard]] constexpr int to_int(Errno error) { return static_cast<int>(error); }

}  // namespace softib
