#include "daemon/rdma_cm/greeting.h"

#include <netinet/in.h>

namespace softib::daemon {

namespace {

constexpr u32 ipv4_in_field = 12;  // an IPv4 address is the field's last four bytes; those before it are zero

Ip read_ip(std::span<const u8> field, u16 family) {
  Ip ip{};
  if (family == AF_INET) return ip_of(static_cast<u32>(wire::get(field, {ipv4_in_field * 8, 32})));
  std::copy_n(field.begin(), ip.size(), ip.begin());
  return ip;
}

void write_ip(std::span<u8> field, const SocketAddress& address) {
  const u32 from = address.family == AF_INET ? ipv4_in_field : 0;
  std::copy(address.ip.begin() + from, address.ip.end(), field.begin() + from);
}

}  // namespace

std::optional<Greeting> read_greeting(std::span<const u8> data) {
  if (data.size() < greeting_size || wire::get(data, greeting::version) != 0) return std::nullopt;
  const u64 ip_version = wire::get(data, greeting::ip_version);
  if (ip_version != 4 && ip_version != 6) return std::nullopt;
  Greeting read;
  read.family = ip_version == 4 ? AF_INET : AF_INET6;
  read.port = static_cast<u16>(wire::get(data, greeting::port));
  read.asker = read_ip(data.subspan(greeting::asker_at), read.family);
  read.answerer = read_ip(data.subspan(greeting::answerer_at), read.family);
  return read;
}

std::vector<u8> write_greeting(const SocketAddress& asker, const SocketAddress& answerer) {
  std::vector<u8> data(greeting_size);
  wire::set(data, greeting::ip_version, asker.family == AF_INET ? 4 : 6);
  wire::set(data, greeting::port, asker.port);
  write_ip(std::span(data).subspan(greeting::asker_at), asker);
  write_ip(std::span(data).subspan(greeting::answerer_at), answerer);
  return data;
}

}  // namespace softib::daemon
