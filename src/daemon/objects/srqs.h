// Shared receive queues.
#pragma once

#include <unordered_map>

#include "daemon/objects/index_pool.h"
#include "daemon/objects/pds.h"
#include "daemon/objects/resizable_ring.h"
#include "hca/rules/bits.h"
#include "ipc/protocol.h"

namespace softib::daemon {

struct SrqObject {
  u32 context;
  u32 creator;
  u32 pd;
  u32 users = 0;
  ResizableRing ring;
  u32 new_max_wr = 0;  // entries of the ring that a resize moves to
};

class Srqs {
 public:
  Srqs(World& world, Pds& pds);

  Result<ipc::CreateSrq::Reply> create(u32 context, u32 creator, const ipc::CreateSrq::Request& request);
  Result<ipc::ModifySrq::Reply> modify(u32 id, const ipc::ModifySrq::Request& request);
  [[nodiscard]] ipc::QuerySrq::Reply query(u32 id) const;
  // Gives back the ring that the SRQ does not use (any more). EINVAL: none of this SRQ, or in use.
  Result<void> end_resize(u32 id, u64 ring);

  // EBUSY while QPs use it.
  Result<ipc::DestroySrq::Reply> destroy(u32 id);
  void drop(u32 id);

  void use(u32 id) { ++srqs_.at(id).users; }
  void unuse(u32 id);

  [[nodiscard]] SrqObject* find(u32 id);
  [[nodiscard]] const std::unordered_map<u32, SrqObject>& all() const { return srqs_; }

 private:
  Result<void> check_change(u32 id, hca::SrqAttr mask, const ipc::ModifySrq::Request& request) const;

  World& world_;
  Pds& pds_;
  IndexPool indices_;
  std::unordered_map<u32, SrqObject> srqs_;
};

}  // namespace softib::daemon
