// The context itself: opening it, its event descriptors, and commands carried inside an ioctl.
#include "hca/limits.h"
#include "kernel/methods/handlers.h"
#include "kernel/tables.h"

namespace softib::kernel::methods {

namespace {

constexpr u64 core_support = IB_UVERBS_CORE_SUPPORT_OPTIONAL_MR_ACCESS;

Result<int> make_async_fd(Interpreter& file) {
  Fd fd;
  if (auto made = file.call<ipc::AllocAsyncFd>({}, &fd); !made) return fail(made.error());
  if (!fd) return fail(EIO);
  return file.fds().adopt_async_fd(std::move(fd), file.context());
}

Result<void> describe_context(Attributes& attributes, u16 vectors_id, u16 support_id) {
  u32 vectors = hca::limits::max_comp_vectors;
  if (auto done = attributes.write(vectors_id, vectors); !done) return done;
  return attributes.write(support_id, core_support);
}

Result<void> answer_get_context(Interpreter& file, Command& command) {
  auto fd = make_async_fd(file);
  if (!fd) return fail(fd.error());
  ib_uverbs_get_context_resp response{};
  response.async_fd = static_cast<u32>(*fd);
  response.num_comp_vectors = hca::limits::max_comp_vectors;
  auto done = command.respond(response);
  if (!done) file.fds().drop_fd(*fd);
  return done;
}

}  // namespace

Result<void> get_context(Interpreter& file, Attributes& attributes) {
  if (!file.claim_context()) return fail(EINVAL);
  auto done =
      describe_context(attributes, UVERBS_ATTR_GET_CONTEXT_NUM_COMP_VECTORS, UVERBS_ATTR_GET_CONTEXT_CORE_SUPPORT);
  if (!done) file.unclaim_context();
  return done;
}

Result<void> get_context(Interpreter& file, Command& command) {
  ib_uverbs_get_context request{};
  if (auto read = command.read(request); !read) return read;
  if (!file.claim_context()) return fail(EINVAL);
  auto done = answer_get_context(file, command);
  if (!done) file.unclaim_context();
  return done;
}

Result<void> query_context(Interpreter&, Attributes& attributes) {
  return describe_context(attributes, UVERBS_ATTR_QUERY_CONTEXT_NUM_COMP_VECTORS,
                          UVERBS_ATTR_QUERY_CONTEXT_CORE_SUPPORT);
}

Result<void> alloc_async_fd(Interpreter& file, Attributes& attributes) {
  auto fd = make_async_fd(file);
  if (!fd) return fail(fd.error());
  auto done = attributes.write_object(UVERBS_ATTR_ASYNC_EVENT_ALLOC_FD_HANDLE, *fd);
  if (!done) file.fds().drop_fd(*fd);
  return done;
}

// The channel needs no undoing: softibd frees it when the last reader of its pipe is gone.
Result<void> create_channel(Interpreter& file, Command& command) {
  ib_uverbs_create_comp_channel request{};
  if (auto read = command.read(request); !read) return read;
  Fd fd;
  auto made = file.call<ipc::CreateChannel>({}, &fd);
  if (!made) return fail(made.error());
  if (!fd) return fail(EIO);
  auto number = file.fds().adopt_channel_fd(std::move(fd), file.context(), {made->channel, made->generation});
  if (!number) return fail(number.error());
  auto done = command.respond(ib_uverbs_create_comp_channel_resp{static_cast<u32>(*number)});
  if (!done) file.fds().drop_fd(*number);
  return done;
}

Result<void> invoke_write(Interpreter& file, Attributes& attributes) {
  auto number = attributes.constant(UVERBS_ATTR_WRITE_CMD, 0xffff'ffffU);
  if (!number) return fail(number.error());
  auto row = find_command(static_cast<u32>(*number));
  if (!row) return fail(row.error());
  Input in = attributes.input(UVERBS_ATTR_CORE_IN);
  Output out = attributes.output(UVERBS_ATTR_CORE_OUT);
  if (in.size() < (*row)->request_size || out.size < (*row)->response_size) return fail(ENOSPC);
  if ((*row)->needs_context && !file.ready()) return fail(EINVAL);
  Command command(file.memory(), in, out, attributes.driver());
  if (auto done = (*row)->handler(file, command); !done) return done;
  return command.responded() ? attributes.mark_written(UVERBS_ATTR_CORE_OUT) : Result<void>{};
}

namespace {

ipc::ObjectKind kind_of(u64 object) {
  switch (object) {
    case UVERBS_OBJECT_PD:
      return ipc::ObjectKind::pd;
    case UVERBS_OBJECT_CQ:
      return ipc::ObjectKind::cq;
    case UVERBS_OBJECT_QP:
      return ipc::ObjectKind::qp;
    case UVERBS_OBJECT_SRQ:
      return ipc::ObjectKind::srq;
    case UVERBS_OBJECT_AH:
      return ipc::ObjectKind::ah;
    case UVERBS_OBJECT_MR:
      return ipc::ObjectKind::mr;
    case UVERBS_OBJECT_MW:
      return ipc::ObjectKind::mw;
    default:
      return ipc::ObjectKind::none;
  }
}

}  // namespace

Result<void> list_handles(Interpreter& file, Attributes& attributes) {
  u32 room = attributes.size(UVERBS_ATTR_INFO_HANDLES_LIST);
  if (room == 0 || room % sizeof(u32) != 0) return fail(EINVAL);
  auto object = attributes.constant(UVERBS_ATTR_INFO_OBJECT_ID, 0xffff);
  if (!object) return fail(object.error());
  if (!object_exists(*object)) return fail(EINVAL);

  auto found = std::make_unique<ipc::ListHandles::Reply>();  // 16 KiB: too much for a small stack
  if (auto kind = kind_of(*object); kind != ipc::ObjectKind::none) {
    ipc::ListHandles::Request request{kind};
    auto done = file.control().exchange(ipc::Op::list_handles, file.context(), &request, sizeof request, found.get(),
                                        sizeof *found, nullptr);
    if (!done) return done;
  }
  constexpr u32 known = sizeof(found->handles) / sizeof(u32);
  u32 count = std::min({found->count, known, static_cast<u32>(room / sizeof(u32))});
  if (auto done = attributes.write_bytes(UVERBS_ATTR_INFO_HANDLES_LIST, found->handles, count * sizeof(u32)); !done)
    return done;
  return attributes.write(UVERBS_ATTR_INFO_TOTAL_HANDLES, count);
}

}  // namespace softib::kernel::methods
