#include "kernel/attributes.h"

#include <limits>

namespace softib::kernel {

namespace {

Input input_of(const ib_uverbs_attr& raw) {
  return raw.len <= sizeof raw.data ? Input::inside(raw.data, raw.len) : Input::at(raw.data, raw.len);
}

Result<void> check_data(UserMemory& memory, const AttrSpec& spec, const ib_uverbs_attr& raw) {
  bool too_long = raw.len > spec.max_size;
  if (too_long && spec.zero_trailing && spec.kind == AttrKind::in) {
    if (auto zero = input_of(raw).expect_zero(memory, spec.max_size); !zero) return zero;
  }
  if (raw.len < spec.min_size || (too_long && !spec.zero_trailing)) return fail(EINVAL);
  return {};
}

Result<void> check_handle(const ib_uverbs_attr& raw) {
  if (raw.len != 0) return fail(EINVAL);
  return {};
}

}  // namespace

Result<void> Attributes::add(const AttrSpec& spec, const ib_uverbs_attr& raw, u16 index) {
  if (has(spec.id)) return fail(EINVAL);
  bool data = spec.kind == AttrKind::in || spec.kind == AttrKind::out;
  if (auto checked = data ? check_data(memory_, spec, raw) : check_handle(raw); !checked) return checked;
  if (raw.attr_data.reserved != 0) return fail(EINVAL);
  if (count_ == capacity) return fail(EINVAL);
  values_[count_++] = {&spec, raw, index};
  return {};
}

const Attributes::Value* Attributes::find(u16 id) const {
  for (size_t i = 0; i < count_; ++i)
    if (values_[i].spec->id == id) return &values_[i];
  return nullptr;
}

Result<u64> Attributes::constant(u16 id, u64 limit) const {
  const Value* value = find(id);
  if (!value) return fail(ENOENT);
  if (value->raw.data > limit) return fail(EINVAL);
  return u64{value->raw.data};
}

Result<u64> Attributes::flags(u16 id, u64 allowed) const {
  const Value* value = find(id);
  if (!value) return u64{0};
  u64 bits = 0;
  if (value->raw.len == sizeof(u64)) {
    bits = value->raw.data;
  } else if (value->raw.len == sizeof(u32)) {
    bits = static_cast<u32>(value->raw.data);
  } else {
    return fail(EINVAL);
  }
  if (bits & ~allowed) return fail(EINVAL);
  return bits;
}

Input Attributes::input(u16 id) const {
  const Value* value = find(id);
  return value ? input_of(value->raw) : Input{};
}

Output Attributes::output(u16 id) const {
  const Value* value = find(id);
  return value ? Output{value->raw.data, value->raw.len} : Output{};
}

Result<void> Attributes::write_bytes(u16 id, const void* from, u32 size) {
  if (!has(id)) return {};
  if (auto done = output(id).copy(memory_, from, size); !done) return done;
  return mark_written(id);
}

Result<void> Attributes::mark_written(u16 id) {
  const Value* value = find(id);
  if (!value) return {};
  u16 flags = value->raw.flags | UVERBS_ATTR_F_VALID_OUTPUT;
  u64 at = user_attributes_ + value->index * sizeof(ib_uverbs_attr) + offsetof(ib_uverbs_attr, flags);
  return memory_.copy_out(at, &flags, sizeof flags);
}

Result<void> Attributes::write_object(u16 id, i64 object) {
  const Value* value = find(id);
  if (!value) return {};
  u64 at = user_attributes_ + value->index * sizeof(ib_uverbs_attr) + offsetof(ib_uverbs_attr, data);
  return memory_.copy_out(at, &object, sizeof object);
}

}  // namespace softib::kernel
