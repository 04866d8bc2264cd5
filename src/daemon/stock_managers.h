// The stock opensm as the fabric's subnet manager: one process for each place, owned by softibd. It runs as `softib
// run` would run it, dies with softibd, and is not started again when it ends.
#pragma once

#include <string>
#include <vector>

#include "daemon/child_process.h"
#include "fabric/fabric.h"

namespace softib::daemon {

class StockManagers {
 public:
  struct Process : OwnedProcess {
    fabric::CableEnd place;
    std::string label;  // "host0/mlx5_0/1"
    u64 guid = 0;
    u32 subnet = 0;
    std::string dir;  // its logs and files
  };

  StockManagers(const fabric::Fabric& fabric, std::string dir, Programs programs);
  ~StockManagers();
  StockManagers(const StockManagers&) = delete;
  StockManagers& operator=(const StockManagers&) = delete;

  // The fabric's folder must be ready for programs. What can't be started is told in the error.
  [[nodiscard]] fabric::Parsed<void> start();
  // Those that run, at once. False: none did.
  bool kill();
  [[nodiscard]] const std::vector<Process>& all() const { return processes_; }
  // The handle of a process can be read: logs how it ended.
  void ended(size_t index);

 private:
  [[nodiscard]] fabric::Parsed<void> start_one(Process& process, const std::string& partitions);
  [[nodiscard]] std::vector<std::string> arguments(const Process& process, bool has_partitions) const;
  [[nodiscard]] std::vector<std::string> environment(const Process& process) const;

  const fabric::Fabric& fabric_;
  std::string dir_;
  Programs programs_;
  std::vector<Process> processes_;
};

// HCA ports where the fabric file wants an opensm, or the first one of each subnet.
[[nodiscard]] std::vector<fabric::CableEnd> places_for_opensm(const fabric::Fabric& fabric);

}  // namespace softib::daemon
