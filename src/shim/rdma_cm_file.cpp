#include "shim/rdma_cm_file.h"

#include <fcntl.h>
#include <poll.h>

#include <new>

#include "ipc/protocol.h"

namespace softib::shim {

namespace {

class Descriptor final : public kernel::UcmaDescriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(const Descriptor&) = delete;
  ~Descriptor() override {
    if (held_) fd_table().clear(held_.get());
  }

  // A duplicate, out of the way of the numbers that the program counts on. The kernel holds the file through a call;
  // programs close it while another thread waits for an event, as they end.
  Result<void> hold() override {
    constexpr int out_of_the_way = 512;
    held_ = Fd(::fcntl(fd_, F_DUPFD_CLOEXEC, out_of_the_way));
    if (!held_ && errno == EBADF) return fail(EBADF);
    if (!held_) held_ = Fd(::fcntl(fd_, F_DUPFD_CLOEXEC, 0));
    if (!held_) return fail(errno);
    fd_table().set_own(held_.get());
    fd_ = held_.get();
    return {};
  }

  Result<void> wait() override {
    const int flags = ::fcntl(fd_, F_GETFL);
    if (flags < 0) return fail(errno);
    if (flags & O_NONBLOCK) return fail(EAGAIN);
    pollfd polled{fd_, POLLIN, 0};
    if (::poll(&polled, 1, -1) < 0) return fail(errno);
    if (polled.revents & (POLLHUP | POLLNVAL)) return fail(EIO);  // softibd is gone
    return {};
  }

  Result<u32> file_of(int fd) override {
    FdTable::Pin pin = fd_table().pin(fd);
    if (pin.kind() == FdClass::rdma_cm) return pin.as<RdmaCmFile>().number();
    return fail(::fcntl(fd, F_GETFD) < 0 ? ENOENT : EINVAL);
  }

 private:
  int fd_;
  Fd held_;
};

}  // namespace

ssize_t RdmaCmFile::write(int fd, const void* buffer, size_t size) {
  auto in = session();
  if (!in) return -EIO;
  kernel::SessionControl control(**in);
  Descriptor descriptor(fd);
  kernel::UcmaFile file(control, kernel::own_memory(), number_);
  return file.write(descriptor, reinterpret_cast<u64>(buffer), size);
}

Result<int> open_rdma_cm(int flags) {
  if (flags & O_DIRECTORY) return fail(ENOTDIR);
  auto in = session();
  if (!in) return fail(in.error());
  Fd pipe;
  auto reply = (*in)->client().call_fd<ipc::OpenRdmaCm>(0, {}, -1, &pipe);
  if (!reply) {
    if (to_int(reply.error()) == EIO) tell_lost_daemon();
    return fail(reply.error());
  }
  if (!pipe) return fail(EIO);
  if (flags & O_NONBLOCK) ::fcntl(pipe.get(), F_SETFL, O_NONBLOCK);
  std::unique_ptr<File> file(new (std::nothrow) RdmaCmFile(reply->file));
  if (!file) return fail(ENOMEM);
  return hand_over(std::move(pipe), FdClass::rdma_cm, std::move(file), (flags & O_CLOEXEC) != 0);
}

}  // namespace softib::shim
