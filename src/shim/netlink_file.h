// An RDMA netlink socket of the program: a real datagram socket pair, whose other end this library keeps and writes
// answers into, so that poll, non-blocking reads and dup work by themselves. Only what shows the address family is
// made up: names, options.
#pragma once

#include <sys/socket.h>

#include <atomic>

#include "base/fd.h"
#include "base/types.h"
#include "shim/fd_table.h"

namespace softib::shim {

class NetlinkFile final : public File {
 public:
  explicit NetlinkFile(Fd peer);
  void closed() override { peer_.reset(); }

  [[nodiscard]] u32 port_id() const { return port_id_.load(std::memory_order_relaxed); }
  void set_port_id(u32 id) { port_id_.store(id, std::memory_order_relaxed); }
  [[nodiscard]] int peer() const { return peer_.get(); }

 private:
  Fd peer_;
  std::atomic<u32> port_id_;
};

// All give what the call gives, or -errno. `fd` is of class netlink.
Result<int> open_netlink(int type);
ssize_t netlink_request(int fd, const void* buffer, size_t size);
int netlink_bind(int fd, const sockaddr* address, socklen_t length);
int netlink_name(int fd, sockaddr* address, socklen_t* length);
int netlink_get_option(int level, int option, void* value, socklen_t* length, bool& known);

// A datagram arrived: it comes from the kernel's address.
void show_kernel_address(void* address, socklen_t* length);

}  // namespace softib::shim
