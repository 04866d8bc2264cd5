// What makes job launchers (mpirun and its like) start their processes on hosts of the fabric.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/environment.h"

namespace softib::cli {

// The settings of the launchers, with the program that stands in for ssh.
[[nodiscard]] std::vector<Variable> launcher_variables(const std::string& ssh);
// The same without values.
[[nodiscard]] std::vector<Variable> no_launcher_variables();

// Whether a variable belongs to a job that is running, so that a session on another host, as sshd begins one, has not
// got it.
[[nodiscard]] bool belongs_to_job(std::string_view variable);

// Lines for `mpirun --hostfile`; 0 slots: none are named.
enum class HostfileFormat : u8 { openmpi, mpich };
[[nodiscard]] std::string hostfile_text(const fabric::Fabric& fabric, u32 slots, HostfileFormat format);

}  // namespace softib::cli
