#include "kernel/uverbs.h"

#include "kernel/interpreter.h"

namespace softib::kernel {

UverbsFile::UverbsFile(hca::Session& session, FdRegistry& fds, u32 context, u32 device, FileOrigin origin)
    : engine_(&session.engine()),
      context_(context),
      device_(device),
      own_control_(std::make_unique<SessionControl>(session)),
      interpreter_(std::make_unique<Interpreter>(*own_control_, fds, own_memory(), context, device,
                                                 origin == FileOrigin::inherited)) {}

UverbsFile::UverbsFile(Control& control, FdRegistry& fds, UserMemory& memory, u32 context, u32 device,
                       FileOrigin origin)
    : engine_(&control.engine()),
      context_(context),
      device_(device),
      interpreter_(
          std::make_unique<Interpreter>(control, fds, memory, context, device, origin == FileOrigin::inherited)) {}

UverbsFile::~UverbsFile() = default;

int UverbsFile::ioctl(unsigned long request, void* argument) {
  // The kernel's ioctl request is 32 bits wide; programs may sign-extend it.
  if (static_cast<u32>(request) != static_cast<u32>(RDMA_VERBS_IOCTL)) return -ENOTTY;
  return interpreter_->ioctl(reinterpret_cast<u64>(argument));
}

// What the command says of its own size is checked as for any other command, but nothing is copied and nothing is
// answered in the response: the provider looks at the return value only.
ssize_t UverbsFile::ring_doorbell(const void* buffer, size_t length) {
  struct Doorbell {
    ib_uverbs_cmd_hdr header;
    ib_uverbs_post_send post;
  };
  const auto* bell = static_cast<const Doorbell*>(buffer);
  if (bell->header.in_words * 4U != length) return -EINVAL;
  if (bell->header.out_words * 4U < sizeof(ib_uverbs_post_send_resp)) return -ENOSPC;
  if (bell->post.sge_count || (bell->post.wr_count && bell->post.wqe_size)) return -ENOSPC;
  int error = engine_->doorbell(bell->post.qp_handle, context_);
  return error ? -error : static_cast<ssize_t>(length);
}

ssize_t UverbsFile::write_command(const void* buffer, size_t length) {
  return interpreter_->write(reinterpret_cast<u64>(buffer), length);
}

Result<u64> UverbsFile::mmap_offset(u64 offset, u64 length) {
  if (!interpreter_->ready()) return fail(ENODEV);
  if (!interpreter_->rings().take(offset, length)) return fail(EINVAL);
  return offsetof(ipc::Segment, arena) + offset;
}

void UverbsFile::abandon() { interpreter_->abandon(); }

}  // namespace softib::kernel
