// Who is inside the data path, and waiting until all that were have left (see segment.h, Lifetime).
#pragma once

#include <array>
#include <vector>

#include "ipc/segment.h"

namespace softib::ipc {

// The lanes that were inside at one moment.
class LaneSnapshot {
 public:
  // Takes the full barrier itself: what was made invalid before is seen by every lane that enters afterwards.
  static LaneSnapshot take(const Segment& segment);

  // True once every lane of the snapshot has left, or its process has died. Forgets those that have.
  [[nodiscard]] bool passed(const Segment& segment);

 private:
  struct Entry {
    u32 slot;
    u32 generation;
    u32 lane;
    u64 sequence;
  };
  std::vector<Entry> inside_;
};

}  // namespace softib::ipc
