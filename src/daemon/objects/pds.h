// Protection domains. They have no record in the segment: an id that keys, QPs, SRQs and AHs carry.
#pragma once

#include <unordered_map>

#include "base/types.h"

namespace softib::daemon {

struct PdObject {
  u32 context;
  u32 creator;
  u32 users = 0;
};

class Pds {
 public:
  Result<u32> allocate(u32 context, u32 creator);  // ENOMEM
  [[nodiscard]] PdObject* find(u32 id);
  // EBUSY while something belongs to it.
  Result<void> free(u32 id);
  void drop(u32 id) { pds_.erase(id); }

  void use(u32 id) { ++pds_.at(id).users; }
  void unuse(u32 id);

  [[nodiscard]] const std::unordered_map<u32, PdObject>& all() const { return pds_; }

 private:
  std::unordered_map<u32, PdObject> pds_;
  u32 last_id_ = 0;
};

}  // namespace softib::daemon
