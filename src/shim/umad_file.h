// An open /dev/infiniband/umadN or issmN: what ib_umad does at the system call boundary. The descriptor is a socket
// whose other end softibd holds; each MAD is one message on it (ipc/umad.h).
#pragma once

#include <poll.h>
#include <rdma/ib_user_mad.h>

#include <atomic>

#include "ipc/brief_wait.h"
#include "shim/files.h"

namespace softib::shim {

class UmadFile final : public File {
 public:
  UmadFile(DeviceNode node, u32 id) : node_(node), id_(id) {}

  [[nodiscard]] DeviceNode node() const { return node_; }

  // As the kernel's: the result, or -errno.
  int ioctl(unsigned long request, void* argument);
  ssize_t read(int fd, void* buffer, size_t size);
  ssize_t write(int fd, const void* buffer, size_t size);
  // poll() before it sleeps, while an answer is due: 0 when none came.
  int poll_briefly(pollfd& polled) const;

 private:
  int register_agent(ib_user_mad_reg_req* request);
  int register_agent2(ib_user_mad_reg_req2* request);
  int unregister_agent(const u32* number);
  int enable_pkey();
  ssize_t device_gone();
  [[nodiscard]] size_t header_size() const;
  [[nodiscard]] bool is_issm() const { return node_.kind == DeviceKind::issm; }

  DeviceNode node_;
  u32 id_;                             // softibd's
  std::atomic<u32> agents_{0};         // bit n: agent n is registered
  std::atomic<bool> has_pkey_{false};  // the program reads and writes the longer header
  std::atomic<bool> used_{false};      // an agent was registered: the header stays as it is
  std::atomic<bool> gone_{false};      // read() has told that the device is
  ipc::BriefWait answer_due_;
};

// open("/dev/infiniband/umadN"): the new descriptor. Opening an issm node that another has open waits, or gives EAGAIN
// with O_NONBLOCK.
Result<int> open_umad(DeviceNode node, int flags);

}  // namespace softib::shim
