#include "ipoib/connection_message.h"

#include <algorithm>

namespace softib::ipoib {

namespace {

constexpr u8 version = 1;
constexpr u32 hardware_at = 16, mtu_at = 36;

}  // namespace

Bytes ConnectionMessage::emit() const {
  Bytes bytes(size);
  bytes[0] = version;
  bytes[1] = static_cast<u8>(kind);
  put32(&bytes[4], number);
  put32(&bytes[8], qpn);
  put32(&bytes[12], psn);
  const auto own = sender.emit();
  std::copy(own.begin(), own.end(), bytes.begin() + hardware_at);
  put32(&bytes[mtu_at], mtu);
  return bytes;
}

std::optional<ConnectionMessage> ConnectionMessage::parse(View bytes) {
  if (bytes.size() < size || bytes[0] != version) return std::nullopt;
  if (bytes[1] < static_cast<u8>(Kind::request) || bytes[1] > static_cast<u8>(Kind::close)) return std::nullopt;
  ConnectionMessage message;
  message.kind = static_cast<Kind>(bytes[1]);
  message.number = get32(&bytes[4]);
  message.qpn = get32(&bytes[8]);
  message.psn = get32(&bytes[12]);
  message.sender = HardwareAddress::parse(bytes.subspan<hardware_at, HardwareAddress::size>());
  message.mtu = get32(&bytes[mtu_at]);
  constexpr u32 largest = 0xff'ffff;
  if (message.qpn > largest || message.psn > largest) return std::nullopt;
  return message;
}

}  // namespace softib::ipoib
