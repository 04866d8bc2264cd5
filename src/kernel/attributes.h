// The attributes of an ioctl method: how a method's row in the table describes them, and the checked view of those
// that a call brought along. The rules are those of the kernel's uverbs ioctl interface.
#pragma once

#include <array>
#include <span>

#include "abi/uverbs.h"
#include "ipc/protocol.h"
#include "kernel/buffers.h"

namespace softib::kernel {

enum class AttrKind : u8 {
  in,              // data for the method
  out,             // room for an answer
  object_new,      // the handle of what the method makes
  object_read,     // a handle
  object_destroy,  // the handle of what the method destroys
  fd_new,          // a descriptor that the method makes
  fd_read,         // a descriptor
};

enum class Need : u8 { optional, mandatory };

struct AttrSpec {
  u16 id;
  AttrKind kind;
  Need need;
  bool zero_trailing;  // longer than max_size is fine as long as the rest is zero
  u16 min_size;
  u16 max_size;
  ipc::ObjectKind object;
};

namespace attr {

inline constexpr u16 any_size = 0xffff;

constexpr AttrSpec sized(u16 id, AttrKind kind, u16 min, u16 max, Need need) {
  return {id, kind, need, false, min, max, ipc::ObjectKind::none};
}
template <typename T>
constexpr AttrSpec in(u16 id, Need need = Need::mandatory) {
  return sized(id, AttrKind::in, sizeof(T), sizeof(T), need);
}
template <typename T>
constexpr AttrSpec out(u16 id, Need need = Need::mandatory) {
  return sized(id, AttrKind::out, sizeof(T), sizeof(T), need);
}
constexpr AttrSpec in_at_least(u16 id, u16 min, Need need = Need::mandatory) {
  return sized(id, AttrKind::in, min, any_size, need);
}
constexpr AttrSpec out_at_least(u16 id, u16 min, Need need = Need::mandatory) {
  return sized(id, AttrKind::out, min, any_size, need);
}
// A structure that may grow; `min` is the size of its oldest version.
template <typename T>
constexpr AttrSpec in_struct(u16 id, u16 min = sizeof(T), Need need = Need::mandatory) {
  return {id, AttrKind::in, need, true, min, sizeof(T), ipc::ObjectKind::none};
}
template <typename T>
constexpr AttrSpec out_struct(u16 id, u16 min = sizeof(T), Need need = Need::mandatory) {
  return {id, AttrKind::out, need, true, min, sizeof(T), ipc::ObjectKind::none};
}
// A constant travels as 8 bytes, flags as 4 or 8.
constexpr AttrSpec constant(u16 id, Need need = Need::mandatory) {
  return sized(id, AttrKind::in, sizeof(u64), sizeof(u64), need);
}
constexpr AttrSpec flags(u16 id, Need need = Need::mandatory) {
  return sized(id, AttrKind::in, sizeof(u32), sizeof(u64), need);
}
constexpr AttrSpec object(u16 id, AttrKind kind, ipc::ObjectKind object, Need need = Need::mandatory) {
  return {id, kind, need, false, 0, 0, object};
}
constexpr AttrSpec fd(u16 id, AttrKind kind, Need need = Need::mandatory) { return sized(id, kind, 0, 0, need); }

// Every method that reaches the driver takes these two besides its own.
inline constexpr AttrSpec driver_in = in_at_least(UVERBS_ATTR_UHW_IN, 0, Need::optional);
inline constexpr AttrSpec driver_out = out_at_least(UVERBS_ATTR_UHW_OUT, 0, Need::optional);

}  // namespace attr

// What one call brought. Values are looked up by attribute id; ids outside the method's row are never found.
class Attributes {
 public:
  static constexpr size_t capacity = 20;  // of the longest row, with the driver's two

  // `user_attributes` is where the program's array of attributes lies.
  Attributes(UserMemory& memory, u64 user_attributes) : memory_(memory), user_attributes_(user_attributes) {}

  // Checks one attribute against its row. EINVAL, EOPNOTSUPP or EFAULT as the kernel.
  Result<void> add(const AttrSpec& spec, const ib_uverbs_attr& raw, u16 index);

  [[nodiscard]] bool has(u16 id) const { return find(id) != nullptr; }
  [[nodiscard]] u32 size(u16 id) const { return has(id) ? find(id)->raw.len : 0; }
  [[nodiscard]] u32 handle(u16 id) const { return has(id) ? static_cast<u32>(find(id)->raw.data) : 0; }
  [[nodiscard]] int fd(u16 id) const { return has(id) ? static_cast<int>(find(id)->raw.data_s64) : -1; }

  // A constant within 0..limit. EINVAL outside, ENOENT when it is missing.
  [[nodiscard]] Result<u64> constant(u16 id, u64 limit) const;
  // EINVAL: bits outside `allowed`. Missing means none.
  [[nodiscard]] Result<u64> flags(u16 id, u64 allowed) const;

  template <Plain T>
  Result<T> read(u16 id) const {
    if (!has(id)) return fail(ENOENT);
    T value{};
    if (auto done = input(id).copy(memory_, &value, 0, std::min<u32>(size(id), sizeof(T))); !done)
      return fail(done.error());
    return value;
  }

  [[nodiscard]] Input input(u16 id) const;
  [[nodiscard]] Output output(u16 id) const;
  [[nodiscard]] DriverData driver() const {
    return DriverData(memory_, input(UVERBS_ATTR_UHW_IN), output(UVERBS_ATTR_UHW_OUT));
  }

  // Answers; an attribute that the program left out is passed over.
  template <Plain T>
  Result<void> write(u16 id, const T& value) {
    return write_bytes(id, &value, sizeof(T));
  }
  Result<void> write_bytes(u16 id, const void* from, u32 size);
  template <Plain T>
  Result<void> write_or_zero(u16 id, const T& value) {
    if (!has(id)) return {};
    if (auto done = output(id).copy_or_zero(memory_, &value, sizeof(T)); !done) return done;
    return mark_written(id);
  }
  // Tells the program that an answer stands in its buffer.
  Result<void> mark_written(u16 id);
  // The handle or descriptor of what was made.
  Result<void> write_object(u16 id, i64 value);

  [[nodiscard]] UserMemory& memory() const { return memory_; }

 private:
  struct Value {
    const AttrSpec* spec;
    ib_uverbs_attr raw;
    u16 index;
  };

  [[nodiscard]] const Value* find(u16 id) const;

  UserMemory& memory_;
  u64 user_attributes_;
  std::array<Value, capacity> values_{};
  size_t count_ = 0;
};

}  // namespace softib::kernel
