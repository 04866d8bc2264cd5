// What the main functions of all these programs do.
#pragma once

namespace softib::perf {

class Collective;

// Starts ranks, or is some of them. Returns the exit code.
[[nodiscard]] int run_program(const Collective& collective, const char* name, int argc, const char* const* argv);
// The program `collective`_perf.
[[nodiscard]] int run_program(const char* collective, int argc, const char* const* argv);

}  // namespace softib::perf
