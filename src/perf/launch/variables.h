// What the launcher tells its ranks by their environment.
#pragma once

namespace softib::perf::variables {

inline constexpr const char* process = "SOFTIB_PERF_PROCESS";      // this one's number
inline constexpr const char* processes = "SOFTIB_PERF_PROCESSES";  // how many there are
// Where to meet, in hexadecimal. Number 0 gets none: it makes one, and says it as the first line of its output.
inline constexpr const char* id = "SOFTIB_PERF_ID";
// Its processors, as "2" or "2,3"; not there: any.
inline constexpr const char* processors = "SOFTIB_PERF_PROCESSORS";
// Set for number 0 where stderr leads to a terminal in the end: the stream for what is to be seen there. It is 1 where
// stdout leads there too, as only within one stream things stay in order.
inline constexpr const char* terminal = "SOFTIB_PERF_TERMINAL";

// How number 0's first line begins.
inline constexpr const char* id_line = "softib-perf-id ";

}  // namespace softib::perf::variables
