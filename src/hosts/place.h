// A host's namespaces, held by a process that lives in them: it has set them up, runs the host's service programs, and
// ends with the keeper.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>
#include <vector>

#include "base/fd.h"
#include "fabric/fabric.h"
#include "hosts/mounts.h"
#include "hosts/netlink.h"

namespace softib::hosts {

// What is the same for all hosts of a fabric.
struct Surroundings {
  std::string folder;           // the fabric's
  std::string preload_library;  // empty: no service programs
  std::string programs;         // folder of the service programs
  bool own_pids = false;
};

struct PlaceSpec {
  u32 number = 0;  // of the host, as in the fabric file
  std::string name;
  std::vector<std::string> interfaces{};  // over InfiniBand, as softib-ipoib wants them
};

class Place {
 public:
  // Makes the process, in namespaces that are empty yet.
  [[nodiscard]] static fabric::Parsed<Place> begin(const Surroundings& around, const PlaceSpec& spec);

  // Joins eth0 to a bridge of the closet, then lets the process set up the rest.
  [[nodiscard]] fabric::Parsed<void> connect(Netlink& closet, const std::string& bridge);
  // Waits until it has done so. What it had to do without comes into `notes`.
  [[nodiscard]] fabric::Parsed<void> finish(Notes& notes);

  // Shows the HCAs' files, once.
  void furnish(Notes& notes);

  // Lets programs find out that they are there (ipc/places.h); not any more.
  void tell_where(const std::string& folder);
  void forget_where();

  [[nodiscard]] pid_t pid() const { return pid_; }
  [[nodiscard]] int handle() const { return handle_.get(); }

 private:
  Place(const PlaceSpec& spec, pid_t pid, Fd handle, Fd line)
      : spec_(spec), pid_(pid), handle_(std::move(handle)), line_(std::move(line)) {}
  [[nodiscard]] std::optional<std::string> ask(std::string_view word) const;

  PlaceSpec spec_;
  pid_t pid_;
  Fd handle_;  // pidfd
  Fd line_;    // to the process
  bool furnished_ = false;
  std::string where_;  // the link with the host's name
};

// Of a host's veth in the closet.
[[nodiscard]] std::string port_name(u32 host);

}  // namespace softib::hosts
