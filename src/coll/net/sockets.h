// TCP sockets, none of which blocks or is handed on to other programs.
#pragma once

#include <chrono>

#include "base/fd.h"
#include "coll/error.h"
#include "coll/net/address.h"

namespace softib::coll {

using Clock = std::chrono::steady_clock;

// Port 0: the kernel chooses one.
[[nodiscard]] Result<Fd> listen_at(const Address& address);
[[nodiscard]] std::optional<Address> local_address(int fd);
// By which address of this host that one would be reached, as the routes are; nothing is sent.
[[nodiscard]] std::optional<Address> address_towards(const Address& to);

// Under way, or there already: writable once it is decided, and then connect_result() says how.
[[nodiscard]] Result<Fd> begin_connect(const Address& to);
[[nodiscard]] Result<void> connect_result(int fd);

// nothing: nobody is waiting. EMFILE and ENFILE: there is no room for another.
[[nodiscard]] Result<std::optional<Fd>> accept_one(int listener);

// Sent, but not yet at the other side's kernel. 0 if that can't be told.
[[nodiscard]] u64 unacknowledged_bytes(int fd);

// A process needs a descriptor for each of the others: raises the soft limit to the hard one.
void raise_descriptor_limit();

// For poll(): milliseconds until then, rounded up; 0 if it is over.
[[nodiscard]] int milliseconds_until(Clock::time_point when);

}  // namespace softib::coll
