#include "kernel/ucma.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "kernel/ucma_table.h"

namespace softib::kernel {

namespace {

using Call = ipc::RdmaCmCommand;

template <typename T>
T view(const Call::Request& request) {
  T value{};
  std::memcpy(&value, request.in, std::min<size_t>(request.size, sizeof value));
  return value;
}

// Room that the answer to a query needs depends on what is asked.
u32 least_room(const UcmaRow& row, const Call::Request& request) {
  if (row.command != RDMA_USER_CM_CMD_QUERY) return row.least_response;
  switch (view<rdma_ucm_query>(request).option) {
    case RDMA_USER_CM_QUERY_PATH:
      return sizeof(rdma_ucm_query_path_resp);
    case RDMA_USER_CM_QUERY_ADDR:
    case RDMA_USER_CM_QUERY_GID:
      return offsetof(rdma_ucm_query_addr_resp, ibdev_index);
    default:
      return 0;
  }
}

u64 response_address(const UcmaRow& row, const Call::Request& request) {
  u64 address = 0;
  std::memcpy(&address, request.in + row.response_at, sizeof address);
  return address;
}

}  // namespace

ssize_t UcmaFile::write(UcmaDescriptor& descriptor, u64 buffer, size_t length) {
  auto done = carry_out(descriptor, buffer, length);
  return done ? static_cast<ssize_t>(length) : -to_int(done.error());
}

Result<void> UcmaFile::carry_out(UcmaDescriptor& descriptor, u64 buffer, size_t length) {
  rdma_ucm_cmd_hdr header;
  if (length < sizeof header) return fail(EINVAL);
  if (auto read = memory_.copy_in(&header, buffer, sizeof header); !read) return read;
  auto found = find_ucma_row(header.cmd);
  if (!found && to_int(found.error()) == EINVAL) return fail(EINVAL);
  if (header.in + sizeof header > length) return fail(EINVAL);
  if (!found) return fail(found.error());
  const UcmaRow& row = **found;
  if (header.out < row.least_response) return fail(ENOSPC);
  if (header.in < row.least_request) return fail(EINVAL);
  Call::Request request{};
  request.file = file_;
  request.command = header.cmd;
  request.size = row.least_request ? std::min<u32>(header.in, row.request_size) : row.request_size;
  if (auto read = memory_.copy_in(request.in, buffer + sizeof header, request.size); !read) return read;
  if (header.out < least_room(row, request)) return fail(ENOSPC);
  request.room = std::min<u32>({row.response_size, Call::most_out, std::max<u32>(header.out, row.least_response)});
  if (row.command == RDMA_USER_CM_CMD_MIGRATE_ID) request.room = row.response_size;
  if (auto added = add_extra(descriptor, request); !added) return added;
  const u64 response = row.response_size ? response_address(row, request) : 0;
  // A command whose answer can't be given is not to be carried out.
  if (row.response_size && row.command != RDMA_USER_CM_CMD_QUERY)
    if (auto there = memory_.prefetch(response, request.room, true); !there) return there;
  auto reply = ask(descriptor, request);
  if (!reply) return fail(reply.error());
  return reply->size ? memory_.copy_out(response, reply->out, std::min(reply->size, Call::most_out)) : Result<void>{};
}

// No option takes so much; what isn't there is noticed first.
Result<void> UcmaFile::refuse_long_option(u64 address, u32 size) {
  constexpr u32 most_that_is_read = 4U << 20;
  if (size <= most_that_is_read)
    if (auto there = memory_.prefetch(address, size, false); !there) return there;
  return fail(EINVAL);
}

// What the structure only points to.
Result<void> UcmaFile::add_extra(UcmaDescriptor& descriptor, Call::Request& request) {
  if (request.command == RDMA_USER_CM_CMD_MIGRATE_ID) {
    auto other = descriptor.file_of(static_cast<int>(view<rdma_ucm_migrate_id>(request).fd));
    if (!other) return fail(other.error());
    request.other_file = *other;
  }
  if (request.command != RDMA_USER_CM_CMD_SET_OPTION) return {};
  const auto option = view<rdma_ucm_set_option>(request);
  if (option.optlen > Call::most_extra) return refuse_long_option(option.optval, option.optlen);
  request.extra_size = option.optlen;
  return option.optlen ? memory_.copy_in(request.extra, option.optval, option.optlen) : Result<void>{};
}

Result<Call::Reply> UcmaFile::ask(UcmaDescriptor& descriptor, const Call::Request& request) {
  if (request.command == RDMA_USER_CM_CMD_GET_EVENT)
    if (auto held = descriptor.hold(); !held) return fail(held.error());
  for (;;) {
    auto reply = control_.call<Call>(0, request);
    if (reply || request.command != RDMA_USER_CM_CMD_GET_EVENT || to_int(reply.error()) != EAGAIN) return reply;
    if (auto waited = descriptor.wait(); !waited) return fail(waited.error());
  }
}

}  // namespace softib::kernel
