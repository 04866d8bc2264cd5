#include "hca/rules/access.h"

namespace softib::hca {

namespace {

constexpr AccessBits known = AccessBits::local_write | AccessBits::remote_write | AccessBits::remote_read |
                             AccessBits::remote_atomic | AccessBits::mw_bind | AccessBits::zero_based |
                             AccessBits::on_demand | AccessBits::hugetlb | AccessBits::flush_global |
                             AccessBits::flush_persistent | AccessBits::optional_range;

// ibv_reg_mr(NULL, SIZE_MAX) with on-demand paging: the whole address space.
bool is_implicit(AccessBits access, u64 address, u64 length, u64 iova) {
  return has(access, AccessBits::on_demand) && address == 0 && iova == 0 && length == ~0ULL;
}

bool wraps(u64 start, u64 length) { return start + length < start; }

}  // namespace

Result<void> check_access(AccessBits access) {
  if (any(access & ~known)) return fail(EINVAL);
  bool writes_remotely = any(access & (AccessBits::remote_write | AccessBits::remote_atomic));
  if (writes_remotely && !has(access, AccessBits::local_write)) return fail(EINVAL);
  return {};
}

Result<void> check_range(AccessBits access, u64 address, u64 length, u64 iova) {
  if (is_implicit(access, address, length, iova)) return {};
  if (length == 0 || wraps(address, length) || wraps(iova, length)) return fail(EINVAL);
  return {};
}

}  // namespace softib::hca
