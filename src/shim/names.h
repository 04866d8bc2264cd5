// Names of the fabric's hosts, as the file `etc/hosts` in the fabric's folder has them: a text in the form of
// /etc/hosts. Programs in a host's namespaces find the same in /etc/hosts itself.
#pragma once

#include <netdb.h>
#include <netinet/in.h>

#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "base/types.h"

namespace softib::shim {

struct HostAddress {
  int family = AF_INET;
  std::array<u8, sizeof(in6_addr)> bytes{};  // of IPv4 the first four
  [[nodiscard]] u32 size() const { return family == AF_INET ? sizeof(in_addr) : sizeof(in6_addr); }
  friend bool operator==(const HostAddress&, const HostAddress&) = default;
};

struct HostName {
  std::string name;  // the first of its line
  HostAddress address;
};

// `family` AF_UNSPEC: any. The machine's own names are left to the C library.
[[nodiscard]] std::optional<HostName> find_name(std::string_view text, std::string_view name, int family);
[[nodiscard]] std::optional<HostName> find_address(std::string_view text, const HostAddress& address);
// What a socket's address holds, if it is one of IP.
[[nodiscard]] std::optional<HostAddress> address_in(const sockaddr* address, socklen_t length);

// The answer of gethostbyname and its like, with all that it points to in `room`. False: it does not fit.
[[nodiscard]] bool fill(const HostName& found, hostent& answer, char* room, size_t size);

}  // namespace softib::shim
