// The sysfs trees of the hosts, each made when somebody first asks for it: a large fabric has many more hosts than are
// used, and a host has a thousand files.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "daemon/hca_place.h"
#include "fabric/fabric.h"
#include "fabric/sysfs.h"
#include "ipc/segment.h"

namespace softib::daemon {

class HostTrees {
 public:
  HostTrees(const fabric::Fabric& fabric, const ipc::Segment& segment);

  // The fabric's folder. Nothing is made before it is known.
  void lie_in(std::string dir) { dir_ = std::move(dir); }
  // Afterwards the host's tree is there, as its ports are now. ENOENT: no folder is known.
  [[nodiscard]] Result<void> prepare(u32 host);
  // A port of the segment has changed; a host without a tree needs nothing.
  void update(u32 port, const fabric::PortStatus& before, const fabric::PortStatus& now) const;
  // HCAs that are not there now: their host's files say nothing of them, until they come back.
  void show_all_but(const std::set<HcaPlace>& removed);

 private:
  void hide(HcaPlace at, bool hidden) const;
  [[nodiscard]] bool is_there(u32 host) const;

  const fabric::Fabric& fabric_;
  const ipc::Segment& segment_;
  std::string dir_;
  std::vector<u32> first_port_;  // by host: index in the segment
  std::vector<bool> made_;
  std::set<HcaPlace> removed_;
};

}  // namespace softib::daemon
