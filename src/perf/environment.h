// What nccl-tests reads from the environment, under its names and ours.
#pragma once

#include <string>
#include <string_view>

#include "base/types.h"

namespace softib::perf {

// SOFTIB_TESTS_<name>, else NCCL_TESTS_<name>; null where neither is set.
[[nodiscard]] const char* tests_variable(std::string_view name);

// Of ..._MIN_BW, in GB/s; negative where nothing is asked for.
[[nodiscard]] double least_bandwidth();

// The group of a process: by `mask` (hexadecimal: ..._SPLIT_MASK) where there is one, else by `split` ("MOD 2", "&0x3",
// "DIV 0b10", "OR 7"). 0 where there is neither, or it is not understood.
[[nodiscard]] u32 color_of(u32 process, const char* mask, const char* split);

}  // namespace softib::perf
