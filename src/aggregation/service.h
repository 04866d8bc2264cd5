// softib-aggregation at work: one thread, which waits for what comes and for time.
#pragma once

#include <string>

#include "aggregation/options.h"

namespace softib::aggregation {

// Until SIGTERM, SIGINT or SIGHUP. The exit status; complaints and news go to standard error.
[[nodiscard]] int serve(const Options& options);

}  // namespace softib::aggregation
