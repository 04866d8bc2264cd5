// Which HCA of which host.
#pragma once

#include <compare>

#include "base/types.h"

namespace softib::daemon {

// An HCA by its indices in the fabric file.
struct HcaPlace {
  u32 host = 0;
  u32 hca = 0;
  friend auto operator<=>(const HcaPlace&, const HcaPlace&) = default;
};

}  // namespace softib::daemon
