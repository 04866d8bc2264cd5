// What processes that are started on several hosts at once find in their environment: which of them each is, and where
// they meet. The names are torchrun's, which programs for it read.
#pragma once

#include <string>
#include <vector>

#include "cli/environment.h"

namespace softib::cli {

// For process `rank`, on hosts[rank]. Nothing goes over what the user has set: neither MASTER_ADDR nor MASTER_PORT, nor
// the numbers, where one of them is there.
[[nodiscard]] std::vector<Variable> job_variables(const std::vector<std::string>& hosts, size_t rank, u32 port);

// For rank 0 to listen at. Jobs that run at the same time have different ones.
[[nodiscard]] u32 port_of_job();

}  // namespace softib::cli
