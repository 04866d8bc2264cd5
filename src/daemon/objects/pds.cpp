#include "daemon/objects/pds.h"

#include "hca/limits.h"

namespace softib::daemon {

Result<u32> Pds::allocate(u32 context, u32 creator) {
  if (pds_.size() >= hca::limits::max_pd) return fail(ENOMEM);
  do ++last_id_;
  while (last_id_ == 0 || pds_.contains(last_id_));
  pds_.emplace(last_id_, PdObject{context, creator});
  return last_id_;
}

PdObject* Pds::find(u32 id) {
  auto found = pds_.find(id);
  return found == pds_.end() ? nullptr : &found->second;
}

Result<void> Pds::free(u32 id) {
  PdObject* pd = find(id);
  if (!pd) return fail(EINVAL);
  if (pd->users) return fail(EBUSY);
  pds_.erase(id);
  return {};
}

void Pds::unuse(u32 id) {
  if (PdObject* pd = find(id)) --pd->users;
}

}  // namespace softib::daemon
