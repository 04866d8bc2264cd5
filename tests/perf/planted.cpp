// all_reduce_perf with one wrong element.
#include "planted.h"

#include "perf/program.h"

int main(int argc, char** argv) {
  using namespace softib::perf;
  return run_program(test::PlantedAllReduce(), "all_reduce_perf_planted", argc, argv);
}
