// What the main functions of all these programs do.
#pragma once

#include "perf/collective.h"

namespace softib::perf {

// Starts ranks, or is some of them. Returns the exit code.
[[nodiscard]] int run_program(const Collective& collective, const char* name, int argc, const char* const* argv);

}  // namespace softib::perf
