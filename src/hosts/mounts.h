// What a host's mount namespace shows in place of the machine's files. To be called inside that namespace.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace softib::hosts {

// What could not be done and is done without, one line each.
using Notes = std::vector<std::string>;

struct HostFiles {
  std::string folder;  // the fabric's
  std::string host;
  bool own_pids = false;
};

// Nothing of what is mounted from now on shows outside: the host's name, /etc/hosts with all hosts, the sysfs of its
// own network, its processes. False: this process may not mount, so there is nothing of all that; errno tells why.
[[nodiscard]] bool mount_host_files(const HostFiles& files, Notes& notes);

// Sysfs lets nobody make files. So a tmpfs covers the folder and shows everything again but for the names that are left
// out, with room for more.
[[nodiscard]] bool make_room_in(const std::string& folder, const std::vector<std::string_view>& without);
// What was put there is for reading only from now on; what is shown again stays as it is.
[[nodiscard]] bool close_room_in(const std::string& folder);

// The HCAs' part of sysfs and their device nodes, once softibd has written them.
void mount_devices(const HostFiles& files, Notes& notes);

}  // namespace softib::hosts
