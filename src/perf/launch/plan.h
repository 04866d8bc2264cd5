// Which process runs where, and by which command.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "coll/error.h"
#include "perf/options.h"

namespace softib::perf {

struct Slot {
  std::string host;  // empty: here
};

// "host0,host1:2" and -np; see Options.
[[nodiscard]] coll::Outcome<std::vector<Slot>> plan_slots(const Options& options);

// The words that run `program` with `arguments` and `variables` in `slot`, from `folder`. `agent` is split at blanks;
// it is given the host and one word that a shell understands.
struct Command {
  std::string program;
  std::vector<std::string> arguments;
  std::map<std::string, std::string> variables;
  std::string folder;
};
[[nodiscard]] std::vector<std::string> words_for(const Slot& slot, const std::string& agent, const Command& command);

// For a shell: one word, whatever is in it.
[[nodiscard]] std::string shell_word(std::string_view word);

// The processors of each process, `each` of the allowed ones in their order, as variables::processors has them. None if
// there are too few for all, or if hosts are reached by an agent of the user's: then they are other machines.
[[nodiscard]] std::vector<std::string> processors_for(const Options& options, std::size_t processes,
                                                      std::span<const u32> allowed);

// The processor of each rank of this process, as it stays_on() it: of those that the launcher gave, or of a process
// that is all of its job. None if there are too few, or only one rank.
[[nodiscard]] std::vector<std::string> processors_of_ranks(const Options& options, bool own,
                                                           std::span<const u32> allowed);

// What of this environment other hosts are told too: settings of collectives and of these programs.
[[nodiscard]] std::map<std::string, std::string> shared_variables(const char* const* environment);

// The arguments without those that are for the launcher.
[[nodiscard]] std::vector<std::string> arguments_of_rank(int argc, const char* const* argv);

}  // namespace softib::perf
