// Membership of InfiniBand multicast groups, as the subnet manager gives it: without it no switch forwards to a port.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <string>

namespace conformance {

// What a set or delete of an MCMemberRecord came to.
struct Membership {
  int error = 0;  // 0, an errno, or EPROTO: the SA refused with `status`
  std::uint16_t status = 0;
  std::uint16_t lid = 0;  // of the group
};

// The port joins the group as a full member, and makes it if there is none (IBTA vol. 1, 15.2.5.17).
Membership join_group(const std::string& device, int port, const ibv_gid& group, std::uint32_t qkey);
Membership leave_group(const std::string& device, int port, const ibv_gid& group);

}  // namespace conformance
