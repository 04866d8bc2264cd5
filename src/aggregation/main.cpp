// softib-aggregation: aggregation nodes and their manager, an ordinary program of libibverbs and libibumad.
#include <cstdio>

#include "aggregation/options.h"
#include "aggregation/service.h"

int main(int argc, char** argv) {
  const auto options = softib::aggregation::parse_command_line(argc, argv);
  if (options) return softib::aggregation::serve(*options);
  const auto& ending = options.error();
  std::fputs(ending.text.c_str(), ending.status == 0 ? stdout : stderr);
  return ending.status;
}
