// RDMA_VERBS_IOCTL: header, attributes, handler.
#include "kernel/interpreter.h"
#include "kernel/tables.h"

namespace softib::kernel {

namespace {

// The header's length is checked against one page, so no call has more attributes than this.
constexpr size_t max_attributes = (ipc::page_size - sizeof(ib_uverbs_ioctl_hdr)) / sizeof(ib_uverbs_attr);

Result<void> check_header(const ib_uverbs_ioctl_hdr& header) {
  if (header.length > ipc::page_size) return fail(EINVAL);
  if (header.length != sizeof header + header.num_attrs * sizeof(ib_uverbs_attr)) return fail(EINVAL);
  if (header.reserved1 || header.reserved2) return fail(EPROTONOSUPPORT);
  if (header.driver_id != RDMA_DRIVER_RXE) return fail(EINVAL);
  return {};
}

const AttrSpec* find_spec(const MethodRow& row, u16 id) {
  for (const AttrSpec& spec : row.attributes)
    if (spec.id == id) return &spec;
  if (!row.driver_data) return nullptr;
  if (id == UVERBS_ATTR_UHW_IN) return &attr::driver_in;
  if (id == UVERBS_ATTR_UHW_OUT) return &attr::driver_out;
  return nullptr;
}

// Handles name objects of this context. ENOENT: none with that handle.
Result<void> check_object(Interpreter& file, const AttrSpec& spec, const ib_uverbs_attr& raw) {
  if (spec.kind == AttrKind::object_new || spec.kind == AttrKind::fd_new)
    return file.ready() ? Result<void>{} : fail(EINVAL);
  if (spec.kind == AttrKind::fd_read)
    return raw.data_s64 == static_cast<int>(raw.data_s64) ? Result<void>{} : fail(EINVAL);
  if (spec.kind != AttrKind::object_read && spec.kind != AttrKind::object_destroy) return {};
  if (raw.data_s64 < 0) return fail(EINVAL);
  if (raw.data > 0xffff'ffffU || !file.exists(spec.object, static_cast<u32>(raw.data))) return fail(ENOENT);
  return {};
}

Result<void> collect(Interpreter& file, const MethodRow& row, std::span<const ib_uverbs_attr> raw, Attributes& into) {
  for (size_t i = 0; i < raw.size(); ++i) {
    const AttrSpec* spec = find_spec(row, raw[i].attr_id);
    if (!spec) {
      if (raw[i].flags & UVERBS_ATTR_F_MANDATORY) return fail(EPROTONOSUPPORT);
      continue;
    }
    if (auto added = into.add(*spec, raw[i], static_cast<u16>(i)); !added) return added;
    if (auto found = check_object(file, *spec, raw[i]); !found) return found;
  }
  for (const AttrSpec& spec : row.attributes)
    if (spec.need == Need::mandatory && !into.has(spec.id)) return fail(EINVAL);
  return {};
}

Result<void> run(Interpreter& file, u64 argument) {
  ib_uverbs_ioctl_hdr header;
  if (auto done = file.memory().copy_in(&header, argument, sizeof header); !done) return done;
  if (auto good = check_header(header); !good) return good;
  const MethodRow* row = find_method(header.object_id, header.method_id);
  if (!row) return fail(EPROTONOSUPPORT);
  if (file.is_removed()) return fail(EIO);

  std::array<ib_uverbs_attr, max_attributes> raw;
  u64 user_attributes = argument + sizeof header;
  if (auto done = file.memory().copy_in(raw.data(), user_attributes, header.num_attrs * sizeof raw[0]); !done)
    return done;
  Attributes attributes(file.memory(), user_attributes);
  if (auto done = collect(file, *row, std::span(raw).first(header.num_attrs), attributes); !done) return done;
  if (row->needs_context && !file.ready()) return fail(EINVAL);
  if (auto done = row->handler(file, attributes); !done) return done;
  return attributes.mark_written(UVERBS_ATTR_UHW_OUT);
}

}  // namespace

int Interpreter::ioctl(u64 argument) {
  auto done = run(*this, argument);
  return done ? 0 : -to_int(done.error());
}

}  // namespace softib::kernel
