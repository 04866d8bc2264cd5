#include "daemon/objects/resizable_ring.h"

#include <utility>

namespace softib::daemon {

Result<RingBlock> ResizableRing::begin_resize(World& world, const hca::RingLayout& layout) {
  if (spare_.offset) return fail(EBUSY);
  auto placed = place_ring(world, layout);
  if (placed) spare_ = *placed;
  return placed;
}

Result<ResizableRing::Resize> ResizableRing::end_resize(World& world, u64 ring, u64 in_use) {
  if (ring == in_use || (ring != ring_.offset && ring != spare_.offset)) return fail(EINVAL);
  Resize end = ring == ring_.offset ? Resize::took_place : Resize::undone;
  if (end == Resize::took_place) std::swap(ring_, spare_);
  spare_ = {};
  world.free_later(ring);
  return end;
}

void ResizableRing::free(World& world) const {
  world.free_later(ring_.offset);
  world.free_later(spare_.offset);
}

}  // namespace softib::daemon
