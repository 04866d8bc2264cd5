// The whole service: ports, interfaces, and the loop that they live in until a signal ends it.
#pragma once

#include "ipoib/options.h"

namespace softib::ipoib {

[[nodiscard]] Told<void> serve(const Options& options);

}  // namespace softib::ipoib
