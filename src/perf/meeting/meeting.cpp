#include "perf/meeting/meeting.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <cstdlib>

#include "perf/launch/variables.h"

namespace softib::perf {

namespace {

using coll::Code;
using coll::Outcome;
using coll::UniqueId;

struct PositionNames {
  const char* process;
  const char* processes;
};

constexpr std::array<PositionNames, 6> position_names{{
    {variables::process, variables::processes},
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
    {"PMI_RANK", "PMI_SIZE"},
    {"MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE"},
    {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS"},
    {"RANK", "WORLD_SIZE"},
}};

std::optional<u32> number_of(const char* name) {
  const char* text = std::getenv(name);
  if (text == nullptr) return std::nullopt;
  const std::string_view digits(text);
  u32 number = 0;
  const auto [end, error] = std::from_chars(digits.begin(), digits.end(), number);
  if (error != std::errc{} || end != digits.end()) return std::nullopt;
  return number;
}

std::optional<Position> position_by(const PositionNames& names) {
  const auto process = number_of(names.process);
  const auto processes = number_of(names.processes);
  if (!process || !processes || *process >= *processes) return std::nullopt;
  return Position{*process, *processes};
}

Outcome<Meeting> with_id(const Position& position, Outcome<UniqueId> id) {
  if (!id) return tl::unexpected(id.error());
  return Meeting{position.process, position.processes, *id};
}

// Number 0 makes the id on its own host, whose network it is, and the launcher carries it to the others.
Outcome<Meeting> join_by_launcher(const Position& position) {
  const char* text = std::getenv(variables::id);
  if (text != nullptr) {
    const auto id = id_from_text(text);
    if (!id) return coll::refuse(Code::invalid_argument, fmt::format("{} is no id", variables::id));
    return Meeting{position.process, position.processes, *id};
  }
  auto meeting = with_id(position, UniqueId::make());
  if (!meeting) return meeting;
  std::puts((variables::id_line + to_text(meeting->id)).c_str());
  std::fflush(stdout);
  return meeting;
}

Outcome<Meeting> join_by_address() {
  const auto position = position_from_environment();
  if (!position)
    return coll::refuse(Code::invalid_usage, "SOFTIB_COMM_ID is set; set RANK and WORLD_SIZE too, for each process");
  return with_id(*position, UniqueId::make());
}

}  // namespace

std::string to_text(const UniqueId& id) {
  auto used = id.bytes.size();
  while (used > 1 && id.bytes[used - 1] == std::byte{0}) --used;
  std::string text;
  for (std::size_t i = 0; i < used; ++i) text += fmt::format("{:02x}", std::to_integer<unsigned>(id.bytes[i]));
  return text;
}

std::optional<UniqueId> id_from_text(std::string_view text) {
  UniqueId id;
  if (text.empty() || text.size() % 2 != 0 || text.size() / 2 > id.bytes.size()) return std::nullopt;
  for (std::size_t i = 0; i < text.size() / 2; ++i) {
    unsigned value = 0;
    const char* digits = text.data() + 2 * i;
    const auto [end, error] = std::from_chars(digits, digits + 2, value, 16);
    if (error != std::errc{} || end != digits + 2) return std::nullopt;
    id.bytes[i] = static_cast<std::byte>(value);
  }
  return id;
}

std::optional<Position> position_from_environment() {
  for (const PositionNames& names : position_names)
    if (const auto position = position_by(names)) return position;
  return std::nullopt;
}

std::optional<Position> position_by_torchrun() { return position_by(position_names.back()); }

Outcome<Meeting> join_meeting() {
  if (const auto position = position_by(position_names.front())) return join_by_launcher(*position);
  if (std::getenv("SOFTIB_COMM_ID") != nullptr) return join_by_address();
  for (const auto join : {join_by_pmix, join_by_pmi, join_by_torchrun, join_by_slurm})
    if (auto joined = join()) return std::move(*joined);
  const auto position = position_from_environment();
  if (position && position->processes > 1)
    return coll::refuse(Code::invalid_usage,
                        fmt::format("this is process {} of {}, and nothing tells where all of them meet: set "
                                    "SOFTIB_COMM_ID=ADDRESS:PORT, an address of the host of process 0",
                                    position->process, position->processes));
  return with_id({}, UniqueId::make());
}

}  // namespace softib::perf
