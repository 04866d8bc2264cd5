#include "cli/launchers.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <utility>

namespace softib::cli {

namespace {

// Open MPI 4 calls it rsh, 5 (by PRRTE) ssh; Hydra is MPICH's launcher, and Intel's under another name.
constexpr std::array agents{"OMPI_MCA_plm_rsh_agent", "PRTE_MCA_plm_ssh_agent", "HYDRA_LAUNCHER_EXEC",
                            "I_MPI_HYDRA_BOOTSTRAP_EXEC"};
constexpr std::array kinds{"HYDRA_LAUNCHER", "I_MPI_HYDRA_BOOTSTRAP"};
// Each host would bind its first rank to the first core, which all hosts share.
constexpr std::array bindings{std::pair{"OMPI_MCA_hwloc_base_binding_policy", "none"},
                              std::pair{"PRTE_MCA_hwloc_default_binding_policy", "none"}, std::pair{"I_MPI_PIN", "0"}};
// Root is nobody special on a host that is a namespace.
constexpr std::array root_allowed{"OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "PRTE_ALLOW_RUN_AS_ROOT",
                                  "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM"};

}  // namespace

std::vector<Variable> launcher_variables(const std::string& ssh) {
  std::vector<Variable> variables;
  for (const char* name : agents) variables.push_back({name, ssh});
  for (const char* name : kinds) variables.push_back({name, "ssh"});
  for (const auto& [name, value] : bindings) variables.push_back({name, value});
  if (::geteuid() == 0)
    for (const char* name : root_allowed) variables.push_back({name, "1"});
  return variables;
}

std::vector<Variable> no_launcher_variables() {
  std::vector<Variable> variables;
  for (const char* name : agents) variables.push_back({name, std::nullopt});
  for (const char* name : kinds) variables.push_back({name, std::nullopt});
  for (const auto& [name, value] : bindings) variables.push_back({name, std::nullopt});
  for (const char* name : root_allowed) variables.push_back({name, std::nullopt});
  return variables;
}

bool belongs_to_job(std::string_view variable) {
  constexpr std::array<std::string_view, 11> beginnings{"OMPI_",  "PMIX_", "PRTE_", "ORTE_",    "OPAL_", "PMI_",
                                                        "HYDRA_", "HYDI_", "MPIR_", "MPIEXEC_", "I_MPI_"};
  return std::any_of(beginnings.begin(), beginnings.end(),
                     [variable](std::string_view beginning) { return variable.starts_with(beginning); });
}

std::string hostfile_text(const fabric::Fabric& fabric, u32 slots, HostfileFormat format) {
  std::string text;
  for (const fabric::Host& host : fabric.hosts) {
    if (host.kind != fabric::HostKind::server) continue;
    text += host.name;
    if (slots) text += fmt::format("{}{}", format == HostfileFormat::openmpi ? " slots=" : ":", slots);
    text += '\n';
  }
  return text;
}

}  // namespace softib::cli
