#include "memory/support.h"

#include "hca/memory/write_hold.h"

namespace softib::hca::testing {

bool can_hold_writers() {
  WriteHold hold;
  return hold.open() != WriteHold::Reach::nobody;
}

}  // namespace softib::hca::testing
