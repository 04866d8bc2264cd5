// What a program registers to get MADs of: ib_register_mad_agent()'s rules.
#pragma once

#include <array>
#include <bitset>
#include <span>

#include "base/types.h"

namespace softib::daemon {

inline constexpr u32 most_methods = 128;

struct Registration {
  u8 qpn = 1;         // 0: SMI, 1: GSI
  u8 mgmt_class = 0;  // 0: nothing but responses to its own requests
  u8 class_version = 0;
  std::array<u8, 3> oui{};
  u8 rmpp_version = 0;
  bool user_rmpp = false;  // the program does RMPP itself
  std::bitset<most_methods> methods;

  // SoftIB does RMPP for it: whole messages are read and written.
  [[nodiscard]] bool has_rmpp() const { return rmpp_version != 0 && !user_rmpp; }
};

// EINVAL, as the kernel gives it.
[[nodiscard]] Result<void> check(const Registration& wanted);

// Whether both would get the same MAD.
[[nodiscard]] bool collide(const Registration& a, const Registration& b);

// Whether an unsolicited MAD to queue pair `qpn` is for it.
[[nodiscard]] bool wants(const Registration& agent, u32 qpn, std::span<const u8> mad);

// Classes whose MADs have an RMPP header.
[[nodiscard]] bool has_rmpp_header(u8 mgmt_class);
[[nodiscard]] bool is_vendor_with_oui(u8 mgmt_class);

}  // namespace softib::daemon
