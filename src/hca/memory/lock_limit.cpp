#include "hca/memory/lock_limit.h"

#include <linux/capability.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "hca/memory/pages.h"

namespace softib::hca {

namespace {

bool may_lock_without_limit() {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[2]{};
  if (::syscall(SYS_capget, &header, data) != 0) return false;
  return data[0].effective & (1U << CAP_IPC_LOCK);
}

}  // namespace

Result<void> LockLimit::charge(u64 address, u64 length) {
  const auto pages = pages_of(address, length);
  if (!pages) return fail(pages.error());
  struct rlimit limit {};
  ::getrlimit(RLIMIT_MEMLOCK, &limit);
  const u64 now = pinned_bytes_.fetch_add(pages->size(), std::memory_order_relaxed) + pages->size();
  if (now <= page_floor(limit.rlim_cur) && limit.rlim_cur != 0) return {};
  if (limit.rlim_cur >= usual_.load(std::memory_order_relaxed) || may_lock_without_limit()) return {};
  pinned_bytes_.fetch_sub(pages->size(), std::memory_order_relaxed);
  return fail(limit.rlim_cur == 0 ? EPERM : ENOMEM);
}

void LockLimit::uncharge(u64 address, u64 length) {
  if (const auto pages = pages_of(address, length)) pinned_bytes_.fetch_sub(pages->size(), std::memory_order_relaxed);
}

}  // namespace softib::hca
