#include "perf/processor.h"

#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <limits>
#include <sstream>

namespace softib::perf {

namespace {

u64 number_in(const std::string& path, u64 otherwise) {
  std::ifstream file(path);
  u64 number = 0;
  return file >> number ? number : otherwise;
}

// MemAvailable of /proc/meminfo.
u64 machine_memory() {
  std::ifstream file("/proc/meminfo");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("MemAvailable:")) continue;
    return std::stoull(line.substr(13)) * 1024;
  }
  return std::numeric_limits<u64>::max();
}

// Of this process's group in the unified hierarchy: "0::/path".
u64 group_memory() {
  constexpr u64 no_limit = std::numeric_limits<u64>::max();
  std::ifstream file("/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("0::")) continue;
    const std::string folder = "/sys/fs/cgroup" + line.substr(3);
    const u64 limit = number_in(folder + "/memory.max", no_limit);  // "max" is no number
    const u64 used = number_in(folder + "/memory.current", 0);
    return limit == no_limit ? no_limit : limit - std::min(limit, used);
  }
  return no_limit;
}

}  // namespace

std::string processor_place() {
  unsigned processor = 0;
  unsigned node = 0;
  if (::getcpu(&processor, &node) != 0) return "0000:00:00";
  const u64 package =
      number_in(fmt::format("/sys/devices/system/cpu/cpu{}/topology/physical_package_id", processor), 0);
  return fmt::format("{:04x}:{:02x}:{:02x}", node, package, processor);
}

std::string processor_name(std::string_view cpuinfo) {
  std::istringstream lines{std::string(cpuinfo)};
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("model name")) continue;
    const auto colon = line.find(": ");
    if (colon != std::string::npos && colon + 2 < line.size()) return line.substr(colon + 2);
  }
  return "unknown processor";
}

std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  std::ostringstream text;
  text << file.rdbuf();
  return processor_name(text.str());
}

bool stay_on(std::string_view processors) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const char* at = processors.data(); at < processors.data() + processors.size(); ++at) {
    u32 processor = 0;
    const auto [end, error] = std::from_chars(at, processors.data() + processors.size(), processor);
    if (error != std::errc{} || processor >= CPU_SETSIZE) return false;
    CPU_SET(processor, &set);
    at = end;  // a comma, or the end
  }
  return ::sched_setaffinity(0, sizeof set, &set) == 0;
}

u64 available_memory() { return std::min(machine_memory(), group_memory()); }

i64 resident_memory() {
  std::ifstream file("/proc/self/statm");
  i64 all = 0;
  i64 resident = 0;
  file >> all >> resident;
  return resident * ::sysconf(_SC_PAGESIZE);
}

}  // namespace softib::perf
