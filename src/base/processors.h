// The processors that a thread may run on.
#pragma once

#include <sched.h>

#include <vector>

#include "base/types.h"

namespace softib {

// Of the calling thread, in ascending order. Empty: the machine has more than a cpu_set_t knows.
[[nodiscard]] inline std::vector<u32> allowed_processors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<u32> processors;
  if (::sched_getaffinity(0, sizeof set, &set) != 0) return processors;
  for (u32 processor = 0; processor < CPU_SETSIZE; ++processor)
    if (CPU_ISSET(processor, &set)) processors.push_back(processor);
  return processors;
}

}  // namespace softib
