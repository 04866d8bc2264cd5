// What a program on a host keeps of the rights in the hosts' user namespace, across exec and as an ordinary user.
#pragma once

#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <span>

#include "base/types.h"

namespace softib {

// Those that make ping, ip, tcpdump and ports below 1024 work, and those with which `softib run` and `softib ssh` on
// one host enter another. They hold for the hosts' namespaces only: outside they are nothing.
inline constexpr std::array<u32, 6> host_capabilities{CAP_NET_ADMIN, CAP_NET_RAW,    CAP_NET_BIND_SERVICE,
                                                      CAP_SYS_ADMIN, CAP_SYS_CHROOT, CAP_SYS_PTRACE};
// A service stands for a part of the kernel, which no limit of locked memory holds for.
inline constexpr std::array<u32, 2> service_capabilities{CAP_NET_ADMIN, CAP_IPC_LOCK};

// Of a process that has them all: the listed ones become ambient. For root nothing changes.
inline Result<void> keep_capabilities(std::span<const u32> listed) {
  if (::geteuid() == 0) return {};
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[2]{};
  if (::syscall(SYS_capget, &header, data) < 0) return fail(errno);
  const auto has = [&data](u32 capability) { return (data[capability / 32].permitted & 1U << capability % 32) != 0; };
  for (u32 capability : listed)
    if (has(capability)) data[capability / 32].inheritable |= 1U << capability % 32;
  if (::syscall(SYS_capset, &header, data) < 0) return fail(errno);
  for (u32 capability : listed)
    if (has(capability) && ::prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, capability, 0, 0) < 0) return fail(errno);
  return {};
}

}  // namespace softib
