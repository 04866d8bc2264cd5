// Reading netlink answers without any netlink library.
#pragma once

#include <linux/netlink.h>
#include <rdma/rdma_netlink.h>

#include <cstring>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/types.h"

namespace softib::tests {

struct NetlinkMessage {
  nlmsghdr header{};
  std::string payload;

  [[nodiscard]] i32 error() const {
    i32 value = 0;
    if (payload.size() >= sizeof value) std::memcpy(&value, payload.data(), sizeof value);
    return value;
  }

  [[nodiscard]] std::map<u16, std::string> attributes() const {
    std::map<u16, std::string> found;
    for (size_t at = 0; at + sizeof(nlattr) <= payload.size();) {
      nlattr attribute;
      std::memcpy(&attribute, payload.data() + at, sizeof attribute);
      if (attribute.nla_len < sizeof attribute || at + attribute.nla_len > payload.size()) return {};
      found[attribute.nla_type] = payload.substr(at + sizeof attribute, attribute.nla_len - sizeof attribute);
      at += NLA_ALIGN(attribute.nla_len);
    }
    return found;
  }

  template <typename T>
  [[nodiscard]] std::optional<T> get(u16 type) const {
    auto all = attributes();
    auto found = all.find(type);
    T value;
    if (found == all.end() || found->second.size() != sizeof value) return std::nullopt;
    std::memcpy(&value, found->second.data(), sizeof value);
    return value;
  }

  // Strings come with their final zero.
  [[nodiscard]] std::optional<std::string> text(u16 type) const {
    auto all = attributes();
    auto found = all.find(type);
    if (found == all.end() || found->second.empty() || found->second.back() != '\0') return std::nullopt;
    return std::string(found->second.c_str());
  }
};

inline std::vector<NetlinkMessage> split_datagram(std::string_view datagram) {
  std::vector<NetlinkMessage> messages;
  while (datagram.size() >= sizeof(nlmsghdr)) {
    NetlinkMessage message;
    std::memcpy(&message.header, datagram.data(), sizeof message.header);
    if (message.header.nlmsg_len < sizeof message.header || message.header.nlmsg_len > datagram.size()) break;
    message.payload = datagram.substr(sizeof message.header, message.header.nlmsg_len - sizeof message.header);
    messages.push_back(message);
    datagram.remove_prefix(std::min<size_t>(NLMSG_ALIGN(message.header.nlmsg_len), datagram.size()));
  }
  return messages;
}

class NetlinkRequest {
 public:
  NetlinkRequest(u16 type, u16 flags, u32 sequence) {
    nlmsghdr header{0, type, static_cast<u16>(flags | NLM_F_REQUEST), sequence, 0};
    bytes_.assign(reinterpret_cast<const char*>(&header), sizeof header);
  }
  static NetlinkRequest nldev(u32 command, u16 flags = 0, u32 sequence = 1) {
    return {static_cast<u16>(RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, command)), flags, sequence};
  }

  NetlinkRequest& put(u16 type, std::string_view value) {
    nlattr attribute{static_cast<u16>(sizeof attribute + value.size()), type};
    bytes_.append(reinterpret_cast<const char*>(&attribute), sizeof attribute);
    bytes_.append(value);
    bytes_.resize(NLMSG_ALIGN(bytes_.size()));
    return *this;
  }
  NetlinkRequest& put(u16 type, u32 value) {
    return put(type, std::string_view(reinterpret_cast<const char*>(&value), sizeof value));
  }
  NetlinkRequest& put(u16 type, const char* value) {
    return put(type, std::string_view(value, std::strlen(value) + 1));
  }

  [[nodiscard]] std::string finish() const {
    std::string done = bytes_;
    u32 length = static_cast<u32>(done.size());
    std::memcpy(done.data(), &length, sizeof length);
    return done;
  }

 private:
  std::string bytes_;
};

}  // namespace softib::tests
