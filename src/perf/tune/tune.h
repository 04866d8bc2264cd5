// Measures all ways of doing collectives on the ranks of a run, and writes a tuning file of the best.
#pragma once

#include "perf/meeting/meeting.h"
#include "perf/stop.h"
#include "perf/tune/options.h"

namespace softib::perf::tune {

// One rank's part. Returns when the run is over, having said on stderr why where it isn't a success.
[[nodiscard]] Exit tune_rank(const TuneOptions& options, const Meeting& meeting);

}  // namespace softib::perf::tune
