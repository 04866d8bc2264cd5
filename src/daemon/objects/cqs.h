// Completion queues.
#pragma once

#include <unordered_map>

#include "daemon/objects/channels.h"
#include "daemon/objects/index_pool.h"
#include "daemon/objects/resizable_ring.h"
#include "ipc/protocol.h"

namespace softib::daemon {

struct CqObject {
  u32 context;
  u32 creator;
  u32 channel;
  u32 users = 0;  // QPs, each counted for sending and for receiving
  ResizableRing ring;
};

class Cqs {
 public:
  Cqs(World& world, Channels& channels);

  struct Created {
    u32 id;
    u32 entries;
    RingBlock ring;
  };
  Result<Created> create(u32 context, u32 creator, const ipc::CreateCq::Request& request);
  Result<Created> resize(u32 id, u32 entries);
  // Gives back the ring that the CQ does not use (any more). EINVAL: none of this CQ, or in use.
  Result<void> end_resize(u32 id, u64 ring);

  // EBUSY while QPs use it.
  Result<ipc::DestroyCq::Reply> destroy(u32 id);
  void drop(u32 id);

  void use(u32 id) { ++cqs_.at(id).users; }
  void unuse(u32 id);

  [[nodiscard]] CqObject* find(u32 id);
  [[nodiscard]] const std::unordered_map<u32, CqObject>& all() const { return cqs_; }

 private:
  World& world_;
  Channels& channels_;
  IndexPool indices_;
  std::unordered_map<u32, CqObject> cqs_;
};

}  // namespace softib::daemon
