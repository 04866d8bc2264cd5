// srun without PMIx: every process knows the first node of its step and the step's number, and that is where and at
// which port process 0 listens.
#include <fmt/format.h>

#include <cstdlib>

#include "perf/meeting/meeting.h"

namespace softib::perf {

namespace {

u32 number_from_environment(const char* name) {
  const char* text = std::getenv(name);
  return text != nullptr ? static_cast<u32>(std::strtoul(text, nullptr, 10)) : 0;
}

}  // namespace

std::string first_of_node_list(std::string_view list) {
  const auto end = list.find_first_of("[,");
  std::string name(list.substr(0, end));
  if (end == std::string_view::npos || list[end] == ',') return name;
  const std::string_view numbers = list.substr(end + 1);
  name += numbers.substr(0, numbers.find_first_of("-,]"));
  // What may follow the bracket belongs to each name.
  const auto close = numbers.find(']');
  if (close == std::string_view::npos) return name;
  const std::string_view rest = numbers.substr(close + 1);
  return name + std::string(rest.substr(0, rest.find_first_of(",[")));
}

Joined join_by_slurm() {
  const char* nodes = std::getenv("SLURM_STEP_NODELIST");
  const char* processes = std::getenv("SLURM_STEP_NUM_TASKS");
  const auto position = position_from_environment();
  if (nodes == nullptr || processes == nullptr || !position) return std::nullopt;
  // From the range that no system gives to clients by itself.
  const u32 port =
      20000 + (number_from_environment("SLURM_JOB_ID") * 31 + number_from_environment("SLURM_STEP_ID")) % 10000;
  ::setenv("SOFTIB_COMM_ID", fmt::format("{}:{}", first_of_node_list(nodes), port).c_str(), 1);
  auto id = coll::UniqueId::make();
  if (!id) return tl::unexpected(id.error());
  return Meeting{position->process, position->processes, *id};
}

}  // namespace softib::perf
