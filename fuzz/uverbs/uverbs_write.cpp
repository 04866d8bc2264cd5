#include "harness.h"

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, size_t size) {
  softib::kernel::testing::run_input(data, size, softib::kernel::testing::Entry::write);
  return 0;
}
