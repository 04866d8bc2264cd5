// The text on stdout, byte for byte as nccl-tests writes it, so that what reads theirs reads this.
#pragma once

#include <span>
#include <string>

#include "perf/options.h"
#include "perf/results.h"

namespace softib::perf {

[[nodiscard]] std::string text_of_heading(const Options& options, const std::string& program);
[[nodiscard]] std::string text_of_device(const Device& device);
[[nodiscard]] std::string text_of_columns(const Options& options);
[[nodiscard]] std::string text_of_row(const Options& options, const Row& row, const std::string& time_of_day);
[[nodiscard]] std::string text_of_verdict(const Verdict& verdict, const std::string& program);
[[nodiscard]] std::string text_of_memory(const MemoryUse& use);
// What follows the verdict and what there is to say about memory.
[[nodiscard]] std::string text_of_end(const std::string& error);

// "2026-01-31 12:00:00", local time, now.
[[nodiscard]] std::string time_of_day();

// At most `width` characters wide where that can be: with two, one or no decimals, else with an exponent.
[[nodiscard]] std::string text_of_number(double value, int width);

}  // namespace softib::perf
