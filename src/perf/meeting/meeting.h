// Which of how many processes this is, and where all meet: from whatever started it.
#pragma once

#include <optional>
#include <string>

#include "coll/bootstrap/bootstrap.h"

namespace softib::perf {

struct Meeting {
  u32 process = 0;
  u32 processes = 1;
  coll::UniqueId id;
};

// Asked in this order:
//   1. the launcher of these programs (launch/launcher.h);
//   2. SOFTIB_COMM_ID, with the number of the process by whichever variables tell it;
//   3. PMIx: Open MPI's mpirun, srun --mpi=pmix;
//   4. PMI: the mpirun of MPICH and of Intel MPI;
//   5. torchrun's variables, as `softib run` on several hosts sets them;
//   6. Slurm's variables alone: a port of the first node of the step;
//   7. none of them: one process.
// Errors tell what is missing.
[[nodiscard]] coll::Outcome<Meeting> join_meeting();

// The other way's parts, each nothing where it isn't how this process was started.
using Joined = std::optional<coll::Outcome<Meeting>>;
[[nodiscard]] Joined join_by_pmi();
[[nodiscard]] Joined join_by_pmix();
[[nodiscard]] Joined join_by_torchrun();
[[nodiscard]] Joined join_by_slurm();

// Number and count of processes as job launchers tell them by variables.
struct Position {
  u32 process = 0;
  u32 processes = 1;
};
[[nodiscard]] std::optional<Position> position_from_environment();
[[nodiscard]] std::optional<Position> position_by_torchrun();  // RANK and WORLD_SIZE alone

[[nodiscard]] std::string to_text(const coll::UniqueId& id);  // in hexadecimal, without the zeros at its end
[[nodiscard]] std::optional<coll::UniqueId> id_from_text(std::string_view text);

// "node[08-11,13],other" -> "node08"
[[nodiscard]] std::string first_of_node_list(std::string_view list);

}  // namespace softib::perf
