// The ring of a queue that can be resized. For a while there are two: softibd places the new one, the program's process
// moves what waits in the old one over, or fails to, and then gives back the one that the queue does not use.
#pragma once

#include "daemon/objects/world.h"

namespace softib::daemon {

class ResizableRing {
 public:
  explicit ResizableRing(RingBlock ring) : ring_(ring) {}

  // Places the ring to move to. EBUSY: another resize is under way.
  [[nodiscard]] Result<RingBlock> begin_resize(World& world, const hca::RingLayout& layout);

  // Frees `ring`, one of the two, while the queue uses the one at `in_use`; tells which way the resize ended.
  // EINVAL: it can't be freed.
  enum class Resize { took_place, undone };
  [[nodiscard]] Result<Resize> end_resize(World& world, u64 ring, u64 in_use);

  // Whether `ring` is one of the two of a resize that is under way.
  [[nodiscard]] bool is_resizing(u64 ring) const {
    return spare_.offset && (spare_.offset == ring || ring_.offset == ring);
  }

  // With the queue gone.
  void free(World& world) const;

 private:
  RingBlock ring_;
  RingBlock spare_;  // from begin_resize to end_resize
};

// Index of the context's queue that is moving from or to `ring`; 0: none.
template <typename Queues>
[[nodiscard]] u32 find_resizing(const Queues& queues, u32 context, u64 ring) {
  for (const auto& [id, queue] : queues)
    if (queue.context == context && queue.ring.is_resizing(ring)) return id;
  return 0;
}

}  // namespace softib::daemon
