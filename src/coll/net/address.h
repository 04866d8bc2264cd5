// IPv4 and IPv6 addresses with ports, and which interface of this host to use.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <optional>
#include <string>
#include <vector>

#include "coll/environment.h"
#include "coll/error.h"
#include "coll/net/bytes.h"

namespace softib::coll {

class Address {
 public:
  Address() = default;  // none
  // nothing: neither IPv4 nor IPv6.
  [[nodiscard]] static std::optional<Address> of(const sockaddr* address);
  [[nodiscard]] static std::optional<Address> of(const sockaddr_storage& address) {
    return of(reinterpret_cast<const sockaddr*>(&address));
  }
  // "10.0.0.1" or "fd00::1".
  [[nodiscard]] static std::optional<Address> numeric(const std::string& text, u16 port = 0);
  // "10.0.0.1:80", "[fd00::1]:80" or "host1:80"; names are looked up.
  [[nodiscard]] static Outcome<Address> resolve(const std::string& text);

  [[nodiscard]] const sockaddr* data() const { return reinterpret_cast<const sockaddr*>(&storage_); }
  [[nodiscard]] socklen_t size() const;
  [[nodiscard]] int family() const { return storage_.ss_family; }
  [[nodiscard]] u16 port() const;
  [[nodiscard]] Address with_port(u16 port) const;
  [[nodiscard]] std::span<const std::byte> ip() const;  // 4 or 16 bytes, as they are sent
  [[nodiscard]] bool is_loopback() const;
  [[nodiscard]] bool is_link_local() const;  // of IPv6: means something on one host only
  [[nodiscard]] bool in_subnet_of(const Address& other, u32 prefix) const;

  [[nodiscard]] std::string host() const;  // "fd00::1"
  [[nodiscard]] std::string text() const;  // "[fd00::1]:80"

  void put(ByteWriter& to) const;
  [[nodiscard]] static std::optional<Address> get(ByteReader& from);
  bool operator==(const Address& other) const { return text() == other.text(); }

 private:
  sockaddr_storage storage_{};
};

struct Interface {
  std::string name;
  Address address;
  u32 prefix = 0;  // bits of the subnet
};

// Those that are up, in the kernel's order, without link-local addresses.
[[nodiscard]] std::vector<Interface> list_interfaces();

// Several in words: "10.0.0.1:80 or [fd00::1]:80".
[[nodiscard]] std::string text_of(const std::vector<Address>& addresses);

// NCCL's rule: what SOFTIB_SOCKET_IFNAME names, in its order; else what shares a subnet with `near`; else InfiniBand,
// others, Docker's bridges, and loopback last.
[[nodiscard]] Outcome<Interface> choose_interface(const Environment& environment, const std::optional<Address>& near,
                                                  const std::vector<Interface>& interfaces);

// That one, and then those by which hosts may come that don't reach it: at most `most`. Other ports of InfiniBand lead
// to the same hosts, and bridges and loopback to none, so these are added only if SOFTIB_SOCKET_IFNAME names them.
[[nodiscard]] Outcome<std::vector<Interface>> choose_interfaces(const Environment& environment,
                                                                const std::optional<Address>& near,
                                                                const std::vector<Interface>& interfaces,
                                                                std::size_t most);

}  // namespace softib::coll
