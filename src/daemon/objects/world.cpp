#include "daemon/objects/world.h"

#include "abi/rxe.h"

namespace softib::daemon {

Result<RingBlock> place_ring(World& world, const hca::RingLayout& layout) {
  u64 bytes = (layout.bytes() + Arena::page - 1) & ~(Arena::page - 1);
  auto offset = world.arena.allocate(bytes);
  if (!offset) return fail(offset.error());
  auto* head = reinterpret_cast<rxe_queue_buf*>(world.segment.arena + *offset);
  head->log2_elem_size = layout.log2_size;
  head->index_mask = layout.mask();
  return RingBlock{*offset, static_cast<u32>(bytes)};
}

}  // namespace softib::daemon
