// Pages that memory regions hold.
#pragma once

#include "hca/memory.h"
#include "kernel/regions.h"

namespace softib::kernel {

inline void release_pages(hca::ProcessMemory& memory, const Region& region) {
  if (!region.pinned) return;
  memory.unshare(region.address, region.length);
  memory.uncharge(region.address, region.length);
}

}  // namespace softib::kernel
