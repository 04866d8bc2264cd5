// Where a command's input comes from and where its answers go, the same for ioctl and write commands.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstring>
#include <type_traits>

#include "base/types.h"
#include "kernel/user_memory.h"

namespace softib::kernel {

template <typename T>
concept Plain = std::is_trivially_copyable_v<T>;

// As the tables of commands write it; what has no members has no bytes in a command either.
template <typename T>
inline constexpr u16 size_of = std::is_empty_v<T> ? 0 : sizeof(T);

// Input of a command: in the program's memory, or (up to 8 bytes) inside the attribute itself.
class Input {
 public:
  Input() = default;
  static Input at(u64 address, u32 size) { return Input(address, size, false); }
  static Input inside(u64 data, u32 size) { return Input(data, size, true); }

  [[nodiscard]] u32 size() const { return size_; }

  // `size` bytes from `offset` on; the caller keeps within size().
  Result<void> copy(UserMemory& memory, void* to, u32 offset, u32 size) const {
    if (!inside_) return memory.copy_in(to, value_ + offset, size);
    std::memcpy(to, reinterpret_cast<const char*>(&value_) + offset, size);
    return {};
  }

  // EOPNOTSUPP: something other than zero stands from `offset` on, which a newer interface would know the meaning of.
  Result<void> expect_zero(UserMemory& memory, u32 offset) const;

 private:
  Input(u64 value, u32 size, bool inside) : value_(value), size_(size), inside_(inside) {}

  u64 value_ = 0;
  u32 size_ = 0;
  bool inside_ = false;
};

struct Output {
  u64 address = 0;
  u32 size = 0;

  // Writes what fits of `from`.
  Result<void> copy(UserMemory& memory, const void* from, u32 length) const {
    return memory.copy_out(address, from, std::min(size, length));
  }

  // The same, and zeroes what lies behind it.
  Result<void> copy_or_zero(UserMemory& memory, const void* from, u32 length) const;
};

// The provider's own part of a command.
class DriverData {
 public:
  DriverData(UserMemory& memory, Input in, Output out) : memory_(&memory), in_(in), out_(out) {}

  // EINVAL unless the program gave room for a whole T (and, as asked, no input): to be called before anything is made.
  template <Plain T>
  Result<void> expect_room() const {
    if (out_.size < sizeof(T)) return fail(EINVAL);
    return {};
  }
  Result<void> expect_no_input() const {
    if (in_.size() != 0) return fail(EINVAL);
    return {};
  }

  template <Plain T>
  Result<T> request() const {
    if (in_.size() < sizeof(T)) return fail(EINVAL);
    T value{};
    if (auto done = in_.copy(*memory_, &value, 0, sizeof(T)); !done) return fail(done.error());
    return value;
  }

  template <Plain T>
  Result<void> respond(const T& value) const {
    return out_.copy(*memory_, &value, sizeof(T));
  }

  [[nodiscard]] const Input& in() const { return in_; }
  [[nodiscard]] const Output& out() const { return out_; }

 private:
  UserMemory* memory_;
  Input in_;
  Output out_;
};

}  // namespace softib::kernel
