// The network namespace, by rtnetlink: what both the keeper of hosts and the service of IP over InfiniBand do there.
// What only one of them does is beside it, on the same sockets.
#pragma once

#include <linux/netlink.h>

#include <array>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/types.h"

struct nl_sock;
struct nl_msg;
struct nl_addr;

namespace softib::rtnl {

struct Free {
  void operator()(nl_sock* socket) const;
  void operator()(nl_msg* message) const;
  void operator()(nl_addr* address) const;
};
using Socket = std::unique_ptr<nl_sock, Free>;
using Message = std::unique_ptr<nl_msg, Free>;
using Address = std::unique_ptr<nl_addr, Free>;

// To the namespace that this process is in now, wherever it goes afterwards.
[[nodiscard]] Result<Socket> connect();
// Of what libnl gives: 0 or more, or the negative of one of its own numbers.
[[nodiscard]] Result<void> outcome(int result);

// Sends a request and waits until it is done.
[[nodiscard]] Result<void> carry_out(nl_sock* socket, Message request);
// Sends a request that is answered by one message.
[[nodiscard]] Result<void> ask(nl_sock* socket, Message request, const std::function<void(nlmsghdr&)>& answer);

struct InterfaceAddress {
  u32 interface = 0;
  int family = 0;  // AF_INET or AF_INET6
  u8 prefix = 0;
  std::array<u8, 16> bytes{};  // an IPv4 address is in the first four

  friend bool operator==(const InterfaceAddress&, const InterfaceAddress&) = default;
  [[nodiscard]] std::span<const u8> view() const;
};
// Of all interfaces.
[[nodiscard]] Result<std::vector<InterfaceAddress>> addresses(nl_sock* socket);
// For use at once: who else may have an IPv6 one is not asked. One that is there already is no error.
[[nodiscard]] Result<void> add(nl_sock* socket, const InterfaceAddress& address);

// What changed, in a word: whoever watches looks for himself then.
struct Changes {
  bool links = false;
  bool addresses = false;
  bool routes = false;
};

class Watch {
 public:
  [[nodiscard]] static Result<Watch> open();
  [[nodiscard]] int fd() const;
  [[nodiscard]] Changes read();

 private:
  Socket socket_;
};

}  // namespace softib::rtnl
