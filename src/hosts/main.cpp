// softib-hosts: keeps the namespaces of a fabric's hosts. softibd starts it, with a socket as descriptor 3 and the
// hosts on stdin, one `NUMBER NAME INTERFACE...` a line.
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <filesystem>
#include <iostream>
#include <sstream>

#include "hosts/keeper.h"
#include "options/command_line.h"

namespace {

using softib::hosts::KeeperOptions;
using softib::hosts::PlaceSpec;

constexpr int daemon_socket = 3;

std::vector<PlaceSpec> read_hosts() {
  std::vector<PlaceSpec> hosts;
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream words(line);
    PlaceSpec host;
    words >> host.number >> host.name;
    for (std::string word; words >> word;) host.interfaces.push_back(word);
    hosts.push_back(std::move(host));
  }
  return hosts;
}

}  // namespace

int main(int argc, char** argv) {
  KeeperOptions options;
  softib::CommandLine line("Keeps the network namespaces of a SoftIB fabric's hosts; softibd starts it");
  line.required_text("--dir", options.around.folder, "The fabric's runtime folder");
  line.text("--preload-library", options.around.preload_library, "What makes a program run on a host");
  line.flag("--own-pids", options.around.own_pids, "Each host has a PID namespace too");
  if (const auto ending = line.parse(argc, argv)) {
    (ending->status ? std::cerr : std::cout) << ending->text;
    return ending->status;
  }
  ::prctl(PR_SET_NAME, "softib-hosts");
  std::error_code ignored;
  options.around.programs = std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path();
  options.fabric = std::filesystem::path(options.around.folder).filename();
  options.hosts = read_hosts();
  if (options.hosts.empty()) return 0;
  return softib::hosts::Keeper(std::move(options), softib::Fd(daemon_socket)).run();
}
