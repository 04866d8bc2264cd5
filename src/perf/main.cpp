#include "perf/program.h"

// Built once for each collective: SOFTIB_PERF_COLLECTIVE is its name.
int main(int argc, char** argv) {
  return softib::perf::run_program(SOFTIB_PERF_COLLECTIVE, argc, argv);
}
