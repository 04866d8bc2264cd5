// softib-ipoib: network interfaces over InfiniBand ports, served by an ordinary program.
#include <cstdio>

#include "ipoib/options.h"
#include "ipoib/service.h"

int main(int argc, char** argv) {
  auto options = softib::ipoib::parse_command_line(argc, argv);
  if (!options) {
    const auto& ending = options.error();
    if (ending.status == 0)
      std::fputs(ending.text.c_str(), stdout);
    else
      std::fprintf(stderr, "softib-ipoib: %s", ending.text.c_str());
    return ending.status;
  }
  const auto served = softib::ipoib::serve(*options);
  if (served) return 0;
  std::fprintf(stderr, "softib-ipoib: %s\n", served.error().text.c_str());
  return 1;
}
