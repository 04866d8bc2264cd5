// Programs on a host that connect to the machine: launchers' daemons report to the mpirun that started them, and where
// the fabric is not root's, no interface joins the machine to its hosts. Then softibd, which lives in the machine's
// network, lends a socket of that.
#pragma once

#include <sys/socket.h>

namespace softib::shim {

// By the address that the machine would have on the hosts' network.
[[nodiscard]] bool is_machine_on_network(const sockaddr* address, socklen_t length);

enum class Way : unsigned { unknown, none };  // to the address, as far as this host's network told

// Puts a socket of the machine's network in the place of `fd`, a TCP socket that is not connected yet, with its flags
// and usual options; `machine` is what to connect it to. False: the address is none of the machine's, or there is a
// way; nothing has changed, nor has errno. Who waits for events of `fd` by epoll already does not see those of the new
// one.
[[nodiscard]] bool move_to_machine(int fd, const sockaddr* address, socklen_t length, Way way,
                                   sockaddr_storage& machine);

}  // namespace softib::shim
