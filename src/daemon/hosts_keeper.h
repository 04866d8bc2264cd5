// The keeper of hosts' namespaces (softib-hosts) as softibd sees it: started with the fabric, and ended with it.
// Without one, hosts are an environment only.
#pragma once

#include <sys/types.h>

#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "base/fd.h"
#include "daemon/child_process.h"
#include "fabric/fabric.h"
#include "ipc/places.h"

namespace softib::daemon {

class HostsKeeper {
 public:
  HostsKeeper(const fabric::Fabric& fabric, std::string dir) : fabric_(fabric), dir_(std::move(dir)) {}
  ~HostsKeeper();
  HostsKeeper(const HostsKeeper&) = delete;
  HostsKeeper& operator=(const HostsKeeper&) = delete;

  // Hosts have their namespaces, or the fabric does without, afterwards. The error: the fabric file insists on them.
  [[nodiscard]] fabric::Parsed<void> start(const Programs& programs);

  [[nodiscard]] ipc::PlaceKind kind() const;
  // The keeper's process, to be watched; -1: there is none.
  [[nodiscard]] int handle() const { return child_.handle.get(); }
  // Its socket: it says what happens to the hosts.
  [[nodiscard]] int socket() const { return socket_.get(); }
  void ended();
  void told();

  // Sends SIGKILL to every process in the host's namespaces but those in `spared` and the one that holds them; how
  // many.
  u32 kill_all_on(std::string_view host, std::set<pid_t> spared) const;

  // For status.
  [[nodiscard]] pid_t pid() const { return child_.pid; }
  [[nodiscard]] bool in_user_namespace() const { return user_namespace_; }
  [[nodiscard]] const std::string& link() const { return link_; }
  [[nodiscard]] const std::string& note() const { return note_; }

 private:
  [[nodiscard]] fabric::Parsed<void> begin(const Programs& programs);
  [[nodiscard]] fabric::Parsed<void> wait_until_ready();
  void stop();
  [[nodiscard]] bool is_on(pid_t pid, std::string_view host) const;
  [[nodiscard]] fabric::Parsed<void> write_names(bool own_network) const;

  const fabric::Fabric& fabric_;
  std::string dir_;
  ChildProcess child_;
  Fd socket_;
  bool is_ready_ = false;
  bool user_namespace_ = false;
  std::string link_;
  std::string note_;
};

}  // namespace softib::daemon
