#include "shim/names.h"

#include <arpa/inet.h>
#include <strings.h>

#include <algorithm>
#include <cstring>

#include "fabric/addresses.h"

namespace softib::shim {

namespace {

constexpr std::string_view blanks = " \t\r";

std::string_view next_word(std::string_view& line) {
  line.remove_prefix(std::min(line.find_first_not_of(blanks), line.size()));
  const size_t end = std::min(line.find_first_of(blanks), line.size());
  const std::string_view word = line.substr(0, end);
  line.remove_prefix(end);
  return word;
}

std::optional<HostAddress> parse_address(std::string_view word) {
  char text[INET6_ADDRSTRLEN]{};
  if (word.size() >= sizeof text) return std::nullopt;
  word.copy(text, word.size());
  HostAddress address;
  if (::inet_pton(AF_INET, text, address.bytes.data()) == 1) return address;
  address.family = AF_INET6;
  return ::inet_pton(AF_INET6, text, address.bytes.data()) == 1 ? std::optional(address) : std::nullopt;
}

// Its loopback, and its place on the hosts' network: a program outside the hosts knows the machine better.
bool is_of_machine(const HostAddress& address) {
  if (address.family == AF_INET6) return IN6_IS_ADDR_LOOPBACK(reinterpret_cast<const in6_addr*>(address.bytes.data()));
  u32 bytes;
  std::memcpy(&bytes, address.bytes.data(), sizeof bytes);
  return ntohl(bytes) == INADDR_LOOPBACK || ntohl(bytes) == fabric::machine_address;
}

bool same_name(std::string_view a, std::string_view b) {
  return a.size() == b.size() && ::strncasecmp(a.data(), b.data(), a.size()) == 0;
}

// Calls `visit(address, names)` for each line until it gives something.
template <typename Visit>
std::optional<HostName> first_line(std::string_view text, Visit visit) {
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const auto address = parse_address(next_word(line));
    if (!address || is_of_machine(*address)) continue;
    if (auto found = visit(*address, line)) return found;
  }
  return std::nullopt;
}

HostName named(std::string_view names, const HostAddress& address) { return {std::string(next_word(names)), address}; }

}  // namespace

std::optional<HostName> find_name(std::string_view text, std::string_view name, int family) {
  return first_line(text, [&](const HostAddress& address, std::string_view names) -> std::optional<HostName> {
    if (family != AF_UNSPEC && family != address.family) return std::nullopt;
    std::string_view rest = names;
    for (std::string_view word; !(word = next_word(rest)).empty();)
      if (same_name(word, name)) return named(names, address);
    return std::nullopt;
  });
}

std::optional<HostName> find_address(std::string_view text, const HostAddress& wanted) {
  return first_line(text, [&](const HostAddress& address, std::string_view names) -> std::optional<HostName> {
    if (address == wanted) return named(names, address);
    return std::nullopt;
  });
}

std::optional<HostAddress> address_in(const sockaddr* address, socklen_t length) {
  HostAddress found;
  if (!address || length < sizeof(sa_family_t)) return std::nullopt;
  found.family = address->sa_family;
  if (found.family == AF_INET && length >= sizeof(sockaddr_in))
    std::memcpy(found.bytes.data(), &reinterpret_cast<const sockaddr_in*>(address)->sin_addr, found.size());
  else if (found.family == AF_INET6 && length >= sizeof(sockaddr_in6))
    std::memcpy(found.bytes.data(), &reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr, found.size());
  else
    return std::nullopt;
  return found;
}

bool fill(const HostName& found, hostent& answer, char* room, size_t size) {
  struct Block {
    char* aliases[1];
    char* addresses[2];
    HostAddress address;
  };
  const size_t skipped = (alignof(Block) - reinterpret_cast<uintptr_t>(room) % alignof(Block)) % alignof(Block);
  if (size < skipped + sizeof(Block) + found.name.size() + 1) return false;
  auto* block = new (room + skipped) Block{{nullptr}, {nullptr, nullptr}, found.address};
  block->addresses[0] = reinterpret_cast<char*>(block->address.bytes.data());
  char* name = room + skipped + sizeof(Block);
  std::memcpy(name, found.name.c_str(), found.name.size() + 1);
  answer = {name, block->aliases, found.address.family, static_cast<int>(found.address.size()), block->addresses};
  return true;
}

}  // namespace softib::shim
