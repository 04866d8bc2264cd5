// The uverbs character device's methods, carried out in the calling process: one object per command file.
//
// The shim keeps one UverbsFile per open command file that this process knows (several descriptors may lead to it) and
// passes on what the program does with the descriptor. Everything here may be called from several threads at once; the
// shim keeps the object alive while a call is inside.
#pragma once

#include <sys/types.h>

#include <memory>

#include "abi/uverbs.h"
#include "base/types.h"
#include "kernel/control.h"
#include "kernel/fd_registry.h"
#include "kernel/user_memory.h"

namespace softib::kernel {

class Interpreter;

// How this process came by the command file.
enum class FileOrigin {
  opened,    // by open(): commands need GET_CONTEXT first, as in the kernel
  inherited  // by SCM_RIGHTS, fork or exec: its context exists already
};

class UverbsFile {
 public:
  // `device` is the segment's index of the device, `context` softibd's id of the context behind the command file.
  UverbsFile(hca::Session& session, FdRegistry& fds, u32 context, u32 device, FileOrigin origin);
  // The same over an interface, for tests; `control`, `fds` and `memory` outlive the file.
  UverbsFile(Control& control, FdRegistry& fds, UserMemory& memory, u32 context, u32 device, FileOrigin origin);
  // The last close in this process: gives back the pages of the memory regions that it registered.
  ~UverbsFile();
  UverbsFile(const UverbsFile&) = delete;
  UverbsFile& operator=(const UverbsFile&) = delete;

  // ioctl(fd, request, argument): 0 or -errno. ENOIOCTLCMD has become ENOTTY.
  int ioctl(unsigned long request, void* argument);

  // write(fd, buffer, length): bytes or -errno. The doorbell is the hot path.
  ssize_t write(const void* buffer, size_t length) {
    if (is_doorbell(buffer, length)) return ring_doorbell(buffer, length);
    return write_command(buffer, length);
  }

  // mmap(fd) with a provider's offset and length: the offset in the segment's descriptor at which to map. Each ring
  // can be mapped once, as with the kernel's rxe; EINVAL otherwise.
  Result<u64> mmap_offset(u64 offset, u64 length);

  // In the child of a fork, instead of the destructor's work: nothing of the parent's is given back.
  void abandon();

  [[nodiscard]] u32 context() const { return context_; }
  [[nodiscard]] u32 device() const { return device_; }

 private:
  // The command that the rxe provider's post_send writes: all work requests already stand in the ring. It is read where
  // it lies; of wild pointers only those into the first pages are told apart (EFAULT).
  static bool is_doorbell(const void* buffer, size_t length) {
    auto* header = static_cast<const ib_uverbs_cmd_hdr*>(buffer);
    return length == sizeof(ib_uverbs_cmd_hdr) + sizeof(ib_uverbs_post_send) &&
           reinterpret_cast<u64>(buffer) >= 65536 && header->command == IB_USER_VERBS_CMD_POST_SEND;
  }
  ssize_t ring_doorbell(const void* buffer, size_t length);
  ssize_t write_command(const void* buffer, size_t length);

  hca::Engine* engine_;
  u32 context_;
  u32 device_;
  std::unique_ptr<Control> own_control_;
  std::unique_ptr<Interpreter> interpreter_;
};

}  // namespace softib::kernel
