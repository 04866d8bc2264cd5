// What there is to say of the processor a rank runs on, where nccl-tests tells of its GPU.
#pragma once

#include <string>
#include <string_view>

#include "base/types.h"

namespace softib::perf {

// NUMA node, package and processor of the calling thread, in the form of a GPU's address: "0000:00:03".
[[nodiscard]] std::string processor_place();

// "AMD EPYC 7B13": of the text of /proc/cpuinfo, or "unknown processor".
[[nodiscard]] std::string processor_name(std::string_view cpuinfo);
[[nodiscard]] std::string processor_name();

// Keeps this process, with the threads that it starts from now on, on processors of a list as "2,3". False: there is no
// such list, or the system refuses.
bool stay_on(std::string_view processors);

// Bytes that programs could still take on this machine, and in this process's control group.
[[nodiscard]] u64 available_memory();
// Bytes of memory that this process has now.
[[nodiscard]] i64 resident_memory();

}  // namespace softib::perf
