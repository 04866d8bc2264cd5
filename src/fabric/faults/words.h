// Faults in words, as `softib` and scenario files take them, and as softibd is asked for them.
//
//   link END down | up | reset | flap [--times N] [--every TIME]
//   link END width 1x | speed SDR | ber 1e-10 | drop 1% | delay 10us
//   link swap END END
//   counters END stuck | free | add COUNTER N
//   switch SWITCH off | on
//   host HOST kill | off | on | reboot [--after TIME]
//   hca HOST/HCA remove | add
//   sm kill | restart
//   aggregation kill | restart
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "fabric/fabric.h"
#include "ipc/protocol.h"

namespace softib::fabric {

using FaultRequest = ipc::Fault::Request;

[[nodiscard]] Parsed<FaultRequest> parse_fault(const Fabric& fabric, std::span<const std::string> words);
// The other way round.
[[nodiscard]] std::string fault_words(const Fabric& fabric, const FaultRequest& fault);
// What mends it; nothing where it mends itself or mends another.
[[nodiscard]] std::optional<FaultRequest> undo_of(const FaultRequest& fault);

// "10us", "1.5s", "2min" in nanoseconds; a number alone is of `unit` ("ms"), where one is given.
[[nodiscard]] Parsed<u64> parse_time(std::string_view text, std::string_view unit = {});
[[nodiscard]] std::string time_words(u64 nanoseconds);  // "10us"

// Words of a line, at blanks.
[[nodiscard]] std::vector<std::string> split_words(std::string_view line);

// Names of the error counters, as sysfs has them.
[[nodiscard]] std::vector<std::string_view> counter_names();

}  // namespace softib::fabric
