// softib-aggregation, which does in-network reduction on the aggregation nodes that the fabric file asks for: one
// process for each host of them, the first with the aggregation manager. softibd owns them as it owns opensm: they die
// with it, and are not started again when they end. Nobody else may open the HCAs of these hosts.
#pragma once

#include <string>
#include <vector>

#include "daemon/child_process.h"
#include "fabric/fabric.h"

namespace softib::daemon {

class AggregationPrograms {
 public:
  struct Process : OwnedProcess {
    u32 host = 0;
    std::string folder;  // where it works
    Fd word{};           // readable once it has said that it is ready, or never will
    bool ready = false;
    [[nodiscard]] std::string log() const { return folder + "/softib-aggregation.log"; }
  };

  AggregationPrograms(const fabric::Fabric& fabric, std::string dir, Programs programs);
  ~AggregationPrograms();
  AggregationPrograms(const AggregationPrograms&) = delete;
  AggregationPrograms& operator=(const AggregationPrograms&) = delete;

  // The fabric's folder must be ready for programs. What can't be started is told in the error, and in state().
  [[nodiscard]] fabric::Parsed<void> start();
  // Those that run, at once. False: none did.
  bool kill();
  // The handle of a process can be read: logs how it ended.
  void ended(size_t index);
  // Its word can be read.
  void told(size_t index);

  [[nodiscard]] const std::vector<Process>& all() const { return processes_; }
  [[nodiscard]] std::string state(const Process& process) const;
  // Whether a process is the one for this host.
  [[nodiscard]] bool is_for(pid_t pid, u32 host) const;

 private:
  [[nodiscard]] fabric::Parsed<void> start_one(Process& process);

  const fabric::Fabric& fabric_;
  std::string dir_;
  Programs programs_;
  std::vector<Process> processes_;
  std::string why_not_;  // they could not be started
};

}  // namespace softib::daemon
