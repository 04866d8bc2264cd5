#include "perf/program.h"

// Built once for each collective: SOFTIB_PERF_COLLECTIVE is its name.
int main(int argc, char** argv) {
  using namespace softib::perf;
  return run_program(*make_collective(SOFTIB_PERF_COLLECTIVE), SOFTIB_PERF_COLLECTIVE "_perf", argc, argv);
}
